/* The last steps before the command. None of them can be undone. */
#include "jail.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLOSE_ON_EXEC = 4, NICER = 19 };

static int failure_fd;

static void fail(const char *step) {
  char line[400];
  int length = snprintf(line, sizeof line, "%s: %s", step, strerror(errno));
  if (length > 0 && write(failure_fd, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0) _exit(125);
  _exit(125);
}

static void limit(int resource, uint64_t soft, uint64_t hard) {
  struct rlimit now;
  if (getrlimit((__rlimit_resource_t)resource, &now) != 0) fail("limits");
  if (hard > now.rlim_max) hard = now.rlim_max; /* the limit of the host cannot be exceeded */
  struct rlimit value = { .rlim_cur = soft < hard ? soft : hard, .rlim_max = hard };
  if (setrlimit((__rlimit_resource_t)resource, &value) != 0) fail("limits");
}

static void limit_if_set(int resource, uint64_t value) {
  if (value != 0) limit(resource, value, value);
}

static void set_limits(const struct spec *spec) {
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_MSGQUEUE, 0, 0);
  limit(RLIMIT_NICE, 0, 0);
  limit(RLIMIT_RTPRIO, 0, 0);
  limit(RLIMIT_MEMLOCK, 1 << 20, 1 << 20);
  limit(RLIMIT_SIGPENDING, 1024, 1024);
  limit_if_set(RLIMIT_NOFILE, spec->open_files);
  limit_if_set(RLIMIT_FSIZE, spec->file_bytes);
  if (spec->cpu_seconds != 0) limit(RLIMIT_CPU, spec->cpu_seconds, spec->cpu_seconds + 1);
  /* The address space is not limited, because many runtimes reserve far more than they use. */
  if (spec->filtered) limit_if_set(RLIMIT_DATA, spec->memory_bytes);
  /* The kernel counts processes per user namespace, including pid 1 and the relay. */
  uint64_t ours = spec->proxy == NULL ? 1 : 2;
  if (spec->processes != 0) limit(RLIMIT_NPROC, spec->processes + ours, spec->processes + ours);
}

/* Jails begin at different processors, because the caller counts on with each jail. */
static void pin_to_processors(const struct spec *spec) {
  cpu_set_t available, chosen;
  if (spec->cpus == 0) return;
  if (sched_getaffinity(0, sizeof available, &available) != 0) fail("processors");
  uint64_t count = (uint64_t)CPU_COUNT(&available), wanted = spec->cpus < count ? spec->cpus : count, index = 0;
  CPU_ZERO(&chosen);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &available)) continue;
    if ((index++ + count - spec->first_cpu % count) % count < wanted) CPU_SET(cpu, &chosen);
  }
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0) fail("processors");
}

void drop_capabilities(void (*failed)(const char *step)) {
  for (int i = 0; i < 64; i++) prctl(PR_CAPBSET_DROP, i);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct none[2] = { 0 };
  if (syscall(SYS_capset, &header, none) != 0) failed("capabilities");
}

static void reset_signals(void) {
  for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

void run_command(struct spec *spec, int failure) {
  failure_fd = failure;
  setsid(); /* no terminal */
  if (chdir(spec->cwd) != 0) fail(spec->cwd);
  /* pid 1 and the server have priority. Without a share, the nice value is the best there is. */
  if (spec->share_fd >= 0 && write(spec->share_fd, "0", 1) < 0) errno = 0;
  if (spec->filtered) setpriority(PRIO_PROCESS, 0, NICER);
  set_limits(spec);
  pin_to_processors(spec);
  if (syscall(SYS_close_range, 3, ~0U, CLOSE_ON_EXEC) != 0) fail("close_range");
  drop_capabilities(fail);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
  if (spec->filtered) {
    /* If abstract sockets of the host cannot be blocked otherwise, unix sockets are denied except pairs. */
    bool unix_sockets = !spec->host_network || scope_abstract_sockets();
    if (!install_filter((struct filter_options){ unix_sockets, spec->cpus != 0 })) fail("seccomp");
  }
  reset_signals();
  if (spec->probe) _exit(0);
  execve(spec->argv[0], spec->argv, spec->env);
  fail(spec->argv[0]);
  _exit(125);
}
