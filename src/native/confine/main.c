/*
 * verk-confine [OPTION]... -- PROGRAM [ARGUMENT]...
 *
 *   --layers LIST     any of landlock, seccomp, namespaces, separated by commas. All must be available. no_new_privs
 *                     is always set
 *   --network         use the network of the host; without it no connection can be opened
 *   --listens         with --network: unix sockets too. The worker gives them up when it listens
 *   --reads PATH      a file, or a folder and everything below; may be absent
 *   --runs PATH       like --reads, and programs may be started
 *   --writes PATH     a folder in which files may be created, changed and removed
 *   --updates PATH    a file that may be changed in place
 *   --drives PATH     a device; may be absent
 *   --owner           files may be given to other users
 *   --nice N          the nice value of all threads: 0 to 19
 *   --before COUNT A… COUNT arguments: a program that runs first, unconfined, and must exit with 0
 *
 * verk-confine --probe prints "NAME ok" or "NAME reason" for each layer.
 */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct options options;

static void fail(const char *what, const char *why) __attribute__((noreturn));
static void fail(const char *what, const char *why) {
  fprintf(stderr, "verk-confine: %s: %s\n", what, why);
  _exit(FAILED);
}

static void add_layers(char *list) {
  for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
    if (strcmp(name, "landlock") == 0) options.landlock = true;
    else if (strcmp(name, "seccomp") == 0) options.seccomp = true;
    else if (strcmp(name, "namespaces") == 0) options.namespaces = true;
    else fail(name, "no such layer");
  }
}

static bool add_rule(const char *name, const char *path) {
  static const char *const names[] = {
    [READS] = "--reads", [RUNS] = "--runs", [WRITES] = "--writes", [UPDATES] = "--updates", [DRIVES] = "--drives",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    if (options.rule_count == MAX_RULES) fail(path, "too many paths");
    options.rules[options.rule_count++] = (struct rule){ (enum access)i, path };
    return true;
  }
  return false;
}

/* Copies COUNT arguments and a NULL into a list. */
static char **take(char **from, int available) {
  int count = atoi(from[0]);
  if (count < 1 || count >= available) fail("--before", "needs COUNT and that many arguments");
  char **list = calloc((size_t)count + 1, sizeof *list);
  if (list == NULL) fail("--before", strerror(errno));
  memcpy(list, from + 1, (size_t)count * sizeof *list);
  return list;
}

static void read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    if (strcmp(name, "--") == 0) {
      if (i + 1 < argc) options.program = argv + i + 1;
      break;
    }
    if (strcmp(name, "--network") == 0) options.network = true;
    else if (strcmp(name, "--listens") == 0) options.listens = true;
    else if (strcmp(name, "--owner") == 0) options.owner = true;
    else if (i + 1 == argc) fail(name, "needs a value");
    else if (strcmp(name, "--layers") == 0) add_layers(argv[++i]);
    else if (strcmp(name, "--nice") == 0) options.nice = atoi(argv[++i]);
    else if (strcmp(name, "--before") == 0) {
      options.before = take(argv + i + 1, argc - i - 1);
      i += 1 + atoi(argv[i + 1]);
    } else if (add_rule(name, argv[i + 1])) i++;
    else fail(name, "no such option");
  }
  if (options.program == NULL) fail("--", "a program must follow");
}

/* The program is our own and reads no untrusted data. It does not get the channel to the server. */
static void run_before(void) {
  pid_t pid = fork();
  if (pid < 0) fail(options.before[0], strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, 9);
    unsetenv("NODE_CHANNEL_FD");
    for (int fd = 3; fd < 64; fd++) close(fd);
    execv(options.before[0], options.before);
    fail(options.before[0], strerror(errno));
  }
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) fail(options.before[0], strerror(errno));
  if (WIFSIGNALED(status)) raise(WTERMSIG(status)); /* the server sees how it ended, such as by SIGKILL for memory */
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) _exit(FAILED); /* it has printed the reason */
}

/* The kernel then kills a worker, not the server, if the machine is out of memory. Later /proc cannot be written. */
static void prefer_as_victim(void) {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "500", 3) < 0) errno = 0; /* it may not be allowed; the kernel then chooses by itself */
  close(fd);
}

/*
 * A worker is a session of its own. Where the kernel shares the processor between sessions (autogroup), a nice value counts
 * only inside of one, and the session has a nice value itself. Without root it changes at most ten times a second in all.
 * The server may have a better value than any worker, so every worker sets its own.
 */
static void lower_priority(void) {
  char text[16];
  const struct timespec pause = { .tv_nsec = 40000000 };
  setpriority(PRIO_PROCESS, 0, options.nice);
  int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  int length = snprintf(text, sizeof text, "%d", options.nice);
  for (int tries = 0; tries < 3 && write(fd, text, (size_t)length) < 0 && errno == EAGAIN; tries++) nanosleep(&pause, NULL);
  close(fd);
  errno = 0;
}

static void confine(void) {
  const char *which;
  lower_priority();
  if (options.namespaces && !leave_network()) fail("namespaces", strerror(errno));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs", strerror(errno));
  if (!drop_capabilities(options.owner)) fail("capabilities", strerror(errno));
  if (options.landlock) {
    int error = restrict_files(&options, &which);
    if (error != 0) fail(which, strerror(error));
  }
  if (options.seccomp && !install_filter(&options, (unsigned)getpid())) fail("seccomp", strerror(errno));
}

enum layer { NO_NEW_PRIVS, SECCOMP, LANDLOCK, NAMESPACES };

static int attempt(enum layer layer) {
  const char *which;
  if (layer == NAMESPACES) return leave_network() ? 0 : errno;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  if (layer == SECCOMP) return install_filter(&options, (unsigned)getpid()) ? 0 : errno;
  return layer == LANDLOCK ? restrict_files(&options, &which) : 0;
}

/* Each layer is tried in its own process, because none can be undone. */
static int probe(void) {
  static const char *const names[] = { "no_new_privs", "seccomp", "landlock", "namespaces" };
  for (int i = NO_NEW_PRIVS; i <= NAMESPACES; i++) {
    pid_t pid = fork();
    if (pid == 0) _exit(attempt((enum layer)i) & 0xff);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0) fail("probe", strerror(errno));
    const bool ended = WIFEXITED(status);
    const int error = ended ? WEXITSTATUS(status) : 0;
    printf("%s %s\n", names[i], ended ? error == 0 ? "ok" : strerror(error) : "the attempt was killed");
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--probe") == 0) return probe();
  read_options(argc, argv);
  prefer_as_victim(); /* also for the program that runs before */
  if (options.before != NULL) run_before();
  confine();
  execv(options.program[0], options.program);
  fail(options.program[0], strerror(errno));
}
