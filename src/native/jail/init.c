/*
 * pid 1 of the jail runs our code, not the command's. It reaps processes, and checks several times a second if time,
 * memory or disk are over their limits. If so, it exits, and the kernel kills everything else in the jail.
 *
 * The command cannot touch pid 1. Signals from inside do not reach it. It cannot be traced or read, because it is not
 * dumpable and has capabilities that the command lacks. It shares only the command's own descriptors.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  TICK_MS = 20,
  MEMORY_MS = 50,
  HURRY_MS = 10, /* interval above half of a limit */
  DISK_MS = 50,
  START_MS = 50,
  FREE_SOCKETS = 64,
  LOOKING_SHARE = 10, /* checks take at most 1/10 of a core, and a third above half of a limit */
  HURRY_SHARE = 3,
};

static struct spec *spec;
static struct disk_use disk_limit;
static bool disk_known;
static uint64_t first_free, first_use; /* of the disk, before the command started */
static pid_t command;
static uint64_t begun, deadline, next_memory;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static _Noreturn void finish(const char *reason, int exit_code, int signal, const char *message) {
  report(reason, exit_code, signal, message);
  _exit(0);
}

void guard_is_blind(void) { finish("memory", -1, -1, "its limits cannot be checked any more"); }

static _Noreturn void finish_over(const char *reason, const char *what, uint64_t limit, const char *unit) {
  char message[200];
  snprintf(message, sizeof message, "%s %llu %s", what, (unsigned long long)limit, unit);
  finish(reason, -1, -1, message);
}

/* Tests often start servers on 127.0.0.1. This loopback device belongs to the jail. */
static void raise_loopback(void) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
  if (fd < 0) return;
  ioctl(fd, SIOCSIFFLAGS, &request);
  close(fd);
}

/* Limits of this user namespace: a second defence behind the filter, and a bound for kernel memory. */
static void bound_namespaces(void) {
  static const char *const kinds[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time" };
  char path[80];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", kinds[i]);
    write_file(path, "0");
  }
  write_file("/proc/sys/user/max_inotify_watches", "16384");
  write_file("/proc/sys/user/max_inotify_instances", "64");
}

/* The defaults of the network namespace allow megabytes for each TCP connection. */
static void bound_tcp(void) {
  write_file("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 212992");
  write_file("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 212992");
}

static void watch_memory(uint64_t now) {
  if (spec->memory_bytes == 0 || !has_proc() || now < next_memory) return;
  uint64_t used = memory_in_use(spec->memory_bytes);
  if (used > spec->memory_bytes) finish_over("memory", "it used more than", spec->memory_bytes, "bytes of memory");
  if (!spec->host_network && sockets_in_use() * spec->socket_bytes > spec->memory_bytes + FREE_SOCKETS * spec->socket_bytes)
    finish_over("memory", "it opened more sockets than fit into", spec->memory_bytes, "bytes of memory");
  if (watches_too_much()) finish("memory", -1, -1, "it watches too many files (epoll)");
  uint64_t took = now_ms() - now;
  bool hurry = used > spec->memory_bytes / 2;
  uint64_t pause = took * (hurry ? HURRY_SHARE : LOOKING_SHARE);
  next_memory = now_ms() + larger(pause, hurry ? HURRY_MS : MEMORY_MS);
}

/*
 * A command in a full workspace must still be able to delete files, so its limit is the current usage and a reserve.
 * Several commands must not add up: the limit is at most a quarter over the quota, or a fixed step for a small quota,
 * because a command can write something before the first check.
 */
static struct disk_use most_allowed(void) {
  return (struct disk_use){
    spec->disk_bytes + larger(spec->disk_bytes / 4, 256 << 20),
    spec->disk_entries + larger(spec->disk_entries / 4, 10000),
  };
}

static void set_disk_limit(const struct disk_use *before) {
  struct disk_use most = most_allowed();
  first_use = before->bytes;
  disk_limit.bytes = smaller(larger(spec->disk_bytes, before->bytes + (1 << 20)), most.bytes);
  disk_limit.entries = smaller(larger(spec->disk_entries, before->entries + 16), most.entries);
  disk_known = true;
}

static bool still_early(void) { return now_ms() < begun + START_MS; }

/* Measures before the command starts, unless that takes too long. The first measurement during the run is used then. */
static void begin_disk(void) {
  if (spec->disk_at == NULL) return;
  if (!disk_open(spec->disk_at)) die(spec->disk_at);
  first_free = disk_free_bytes();
  struct disk_use most = most_allowed(), before;
  if (disk_measure(&before, &most, still_early) != GIVEN_UP) set_disk_limit(&before);
}

static bool look_after_the_rest(void);

/* Kills everything if the limit is exceeded; otherwise returns the usage. */
static uint64_t measure(void) {
  struct disk_use most = most_allowed(), use;
  if (disk_measure(&use, disk_known ? &disk_limit : &most, look_after_the_rest) == TOO_DEEP)
    finish("disk", -1, -1, "its directories are too deep");
  if (!disk_known) set_disk_limit(&use);
  if (use.bytes > disk_limit.bytes) finish_over("disk", "it wrote more than", spec->disk_bytes, "bytes");
  if (use.entries > disk_limit.entries)
    finish_over("disk", "it made more than", spec->disk_entries, "files and directories");
  return use.bytes;
}

static uint64_t unexplained(uint64_t free_bytes, uint64_t used) {
  uint64_t now = free_bytes + (used > first_use ? used - first_use : 0);
  return first_free > now ? first_free - now : 0;
}

/*
 * The disk lost more space than the tree explains. Other processes of the host may use it. But a program can also see
 * the check (inotify) and move its files from directories not yet visited to visited ones. So it is stopped now.
 */
static void look_closely(uint64_t free_bytes) {
  const struct timespec calls_in_progress = { .tv_nsec = 5000000 };
  kill(-1, SIGSTOP);
  nanosleep(&calls_in_progress, NULL);
  uint64_t used = measure();
  if (disk_hides_files()) finish("disk", -1, -1, "it keeps open files that were deleted");
  kill(-1, SIGCONT);
  first_free -= unexplained(free_bytes, used); /* another process of the host used the space */
}

/*
 * Measuring many files is slow. The free space of the file system shows at once if the usage can have grown much.
 */
static void watch_disk(uint64_t now) {
  static uint64_t took, last, next, free_before, left;
  if (spec->disk_at == NULL) return;
  uint64_t free_bytes = disk_free_bytes();
  bool hurry = free_before > free_bytes && free_before - free_bytes > left / 2;
  if (now < (hurry ? last + took * HURRY_SHARE : next)) return;
  uint64_t used = measure();
  if (unexplained(free_bytes, used) > spec->disk_bytes) look_closely(free_bytes);
  last = now_ms();
  took = last - now;
  free_before = free_bytes;
  left = disk_limit.bytes - used;
  next = last + larger(took * LOOKING_SHARE, DISK_MS);
}

static void reap(void) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != command) continue;
    if (WIFEXITED(status)) finish("exited", WEXITSTATUS(status), -1, "");
    finish("signalled", -1, WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
}

static bool look_after_the_rest(void) {
  reap();
  uint64_t now = now_ms();
  if (now >= deadline) finish_over("timeout", "it took longer than", spec->wall_ms, "ms");
  watch_memory(now);
  return true;
}

static void wait_a_tick(const sigset_t *child) {
  uint64_t now = now_ms();
  uint64_t until = now + TICK_MS;
  if (next_memory != 0 && next_memory < until) until = next_memory;
  if (deadline < until) until = deadline;
  uint64_t ms = until > now ? until - now : 1;
  struct timespec pause = { .tv_sec = 0, .tv_nsec = (long)ms * 1000000 };
  sigtimedwait(child, NULL, &pause);
}

static void watch(void) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  for (;;) {
    wait_a_tick(&child);
    look_after_the_rest();
    watch_disk(now_ms());
  }
}

/* Reports on a pipe why the command did not start. The pipe closes when it starts. */
static pid_t start_command(void) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) die("pipe");
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    close(failure[0]);
    close(report_fd);
    run_command(spec, failure[1]);
  }
  close(failure[1]);
  char why[512];
  ssize_t length = read(failure[0], why, sizeof why - 1);
  close(failure[0]);
  if (length > 0) {
    why[length] = '\0';
    finish("setup", -1, -1, why);
  }
  return pid;
}

static bool wants_proc(void) {
  for (int i = 0; i < spec->mount_count; i++)
    if (spec->mounts[i].kind == PROC) return true;
  return false;
}

void run_init(struct spec *given) {
  spec = given;
  begun = now_ms();
  if (sethostname("verk", 4) != 0) errno = 0; /* ProtectHostname of systemd forbids it, and nothing depends on it */
  if (!spec->host_network) raise_loopback();
  build_root(spec);
  if (wants_proc() && !open_proc()) die("proc");
  bound_namespaces();
  if (!spec->host_network) bound_tcp();
  seal_root();
  prctl(PR_SET_DUMPABLE, 0);
  if (spec->proxy != NULL) start_relay(spec);
  begin_disk();
  deadline = spec->wall_ms == 0 ? UINT64_MAX : now_ms() + spec->wall_ms;
  command = start_command();
  syscall(SYS_close_range, 0, 2, 0);
  watch();
  _exit(125);
}
