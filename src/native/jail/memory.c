/*
 * What the processes of the jail hold together. First the kernel's own counters, which are cheap; they count a page
 * once for every process that shares it, so that only what is too much by them is counted exactly, by shares.
 * File pages are not counted: the kernel takes them back when it needs them.
 *
 * Not covered: memory of the kernel itself behind pipes, locks and the like. It is bounded by the numbers of
 * processes and of open files, and the jail is the first to go when the machine runs out (oom_score_adj).
 */
#include "jail.h"

#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MAX_TMPFS = 16 };
static const char *tmpfs_at[MAX_TMPFS];
static int tmpfs_count;

void count_tmpfs(const char *at) {
  if (tmpfs_count < MAX_TMPFS) tmpfs_at[tmpfs_count++] = at;
}

static uint64_t in_tmpfs(void) {
  uint64_t bytes = 0;
  for (int i = 0; i < tmpfs_count; i++) {
    struct statfs fs;
    if (statfs(tmpfs_at[i], &fs) == 0) bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
  }
  return bytes;
}

struct sum {
  uint64_t bytes;
  bool found;
};

static void add_counters(int dir, void *context) {
  struct sum *sum = context;
  char text[4096];
  if (sum->found || read_at(dir, "status", text, sizeof text) <= 0) return;
  if (number_after(text, "VmSize:") == 0) return;
  sum->found = true;
  static const char *const keys[] = { "RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:", "HugetlbPages:" };
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) sum->bytes += number_after(text, keys[i]);
}

static void add_shares(int dir, void *context) {
  struct sum *sum = context;
  char text[4096];
  if (sum->found || read_at(dir, "smaps_rollup", text, sizeof text) <= 0) return;
  sum->found = true;
  uint64_t all = number_after(text, "Pss:");
  uint64_t file = number_after(text, "Pss_File:");
  sum->bytes += all - (file < all ? file : all) + number_after(text, "SwapPss:") + number_after(text, "Private_Hugetlb:");
  if (read_at(dir, "status", text, sizeof text) > 0) sum->bytes += number_after(text, "VmPTE:");
}

/* The main thread of a process may have ended while others go on: then it shows no memory, and they do. */
static void add_process(int dir, struct sum *sum, task_visitor add) {
  sum->found = false;
  add(dir, sum);
  if (!sum->found) each_task(dir, add, sum);
}

static void add_process_counters(int dir, void *context) { add_process(dir, context, add_counters); }
static void add_process_shares(int dir, void *context) { add_process(dir, context, add_shares); }

uint64_t memory_in_use(uint64_t limit) {
  uint64_t files = in_tmpfs();
  struct sum quick = { .bytes = files };
  each_process(add_process_counters, &quick);
  if (quick.bytes <= limit) return quick.bytes;
  struct sum exact = { .bytes = files };
  each_process(add_process_shares, &exact);
  return exact.bytes;
}

/* Of this network namespace. Each may hold a buffer of about 200 KiB that no process is charged for. */
uint64_t sockets_in_use(void) {
  char text[512];
  if (!has_proc() || read_at(-1, "/proc/net/sockstat", text, sizeof text) <= 0) return 0;
  return number_after(text, "sockets: used");
}
