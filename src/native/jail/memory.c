/*
 * Memory of all processes of the jail. The cheap counters of the kernel are read first. They count a shared page once
 * for each process, so the exact shares (PSS) are read only if these counters are over the limit. File pages are not
 * counted, because the kernel can reclaim them.
 *
 * Not covered: kernel memory for pipes, locks and similar objects. The limits of processes and open files bound it, and
 * the jail is the first victim of the OOM killer (oom_score_adj).
 */
#include "jail.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

enum { MAX_TMPFS = 16, MAX_MAP_LINES = 70000 };
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
  uint64_t other; /* address space that is reserved or shared: neither private and writable, nor code */
  bool found;
};

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void add_counters(int dir, void *context) {
  struct sum *sum = context;
  char text[4096];
  if (sum->found || read_at(dir, "status", text, sizeof text) <= 0) return;
  uint64_t size = number_after(text, "VmSize:");
  if (size == 0) return;
  sum->found = true;
  static const char *const held[] = { "RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:", "HugetlbPages:" };
  for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) sum->bytes += number_after(text, held[i]);
  static const char *const known[] = { "VmData:", "VmStk:", "VmExe:", "VmLib:" };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) size = less(size, number_after(text, known[i]));
  sum->other += size;
}

static void add_shares(int dir, void *context) {
  struct sum *sum = context;
  char text[4096];
  if (sum->found || read_at(dir, "smaps_rollup", text, sizeof text) <= 0) return;
  sum->found = true;
  sum->bytes += less(number_after(text, "Pss:"), number_after(text, "Pss_File:"));
  sum->bytes += number_after(text, "SwapPss:") + number_after(text, "Private_Hugetlb:");
  if (read_at(dir, "status", text, sizeof text) > 0) sum->bytes += number_after(text, "VmPTE:");
}

/* A line of maps: "from-to perms offset device inode  name". */
static void add_shared_line(const char *line, struct sum *sum) {
  unsigned long long from, to, inode;
  char permissions[5];
  if (sscanf(line, "%llx-%llx %4s %*s %*s %llu", &from, &to, permissions, &inode) != 4 || permissions[3] != 's') return;
  if (strstr(line, " /dev/zero (deleted)") != NULL && is_new_inode(inode)) sum->bytes += to - from;
}

static void add_shared(int dir, void *context) {
  struct sum *sum = context;
  FILE *maps = open_text(dir, "maps");
  if (maps == NULL) return;
  char line[512];
  for (int lines = 0; lines < MAX_MAP_LINES && fgets(line, sizeof line, maps) != NULL; lines++) {
    sum->found = true;
    add_shared_line(line, sum);
  }
  fclose(maps);
}

/* If the main thread of a process has ended, only its other threads show the memory. */
static void add_process(int dir, struct sum *sum, task_visitor add) {
  sum->found = false;
  add(dir, sum);
  if (!sum->found) each_task(dir, add, sum);
}

static void add_process_counters(int dir, void *context) { add_process(dir, context, add_counters); }
static void add_process_shares(int dir, void *context) { add_process(dir, context, add_shares); }
static void add_process_shared(int dir, void *context) { add_process(dir, context, add_shared); }

/*
 * Shared memory without a file can be removed from the page tables of a process (MADV_DONTNEED), so no counter shows
 * it. It counts once with its whole size, if the process has enough address space to hide something.
 */
static uint64_t shared_memory(void) {
  struct sum sum = { 0 };
  forget_inodes();
  each_process(add_process_shared, &sum);
  return sum.bytes;
}

uint64_t memory_in_use(uint64_t limit) {
  uint64_t files = in_tmpfs();
  struct sum quick = { .bytes = files };
  each_process(add_process_counters, &quick);
  if (quick.other > limit) {
    uint64_t shared = shared_memory();
    if (shared > limit) return shared;
  }
  if (quick.bytes <= limit) return quick.bytes;
  struct sum exact = { .bytes = files };
  each_process(add_process_shares, &exact);
  return exact.bytes;
}

/* Counts the sockets of this network namespace. Their buffers are charged to no process. */
uint64_t sockets_in_use(void) {
  char text[512];
  if (!has_proc() || read_at(-1, "/proc/net/sockstat", text, sizeof text) <= 0) return 0;
  return number_after(text, "sockets: used");
}

/*
 * Twice the default of the host, because a message as large as the buffer can come on top of a full buffer. Must be
 * read in the network namespace of the host.
 */
uint64_t socket_bytes(void) {
  static const char *const defaults[] = { "/proc/sys/net/core/wmem_default", "/proc/sys/net/core/rmem_default" };
  uint64_t most = 208 * 1024;
  for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
    char text[32];
    uint64_t bytes = read_at(AT_FDCWD, defaults[i], text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
    if (bytes > most) most = bytes;
  }
  return 2 * most;
}
