/* The helper reads the spec, drops root, makes the namespaces and waits for the end of the jail. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct spec spec;

/* Root is dropped before the namespaces are made: the uid of the jail must not map to uid 0 of the host. */
static void drop_root(void) {
  if (geteuid() != 0) return;
  if (spec.uid == 0 || spec.gid == 0) die_because("spec", "a helper that root started needs a user and a group to become");
  open_trees(&spec, true);
  gid_t gid = (gid_t)spec.gid;
  uid_t uid = (uid_t)spec.uid;
  /* Opening /dev/stdout opens the pipe again, which only its owner may do. */
  for (int fd = 0; fd <= 2; fd++) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fchown(fd, uid, gid) != 0) die("pipes");
  }
  if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) die("user");
}

/* Set after the credentials, because changing them clears it. If the server died before, its end of the pipe is closed. */
static void die_with_server(void) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) die("death signal");
  struct pollfd reader = { .fd = REPORT_FD };
  if (poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)) != 0) _exit(125);
}

/* The uid inside is 1000, an ordinary user. On the host it is the mapped user. */
static void map_ids(uid_t uid, gid_t gid) {
  char line[64];
  prctl(PR_SET_DUMPABLE, 1); /* otherwise these files belong to root */
  if (!write_file("/proc/self/setgroups", "deny")) die("id maps");
  snprintf(line, sizeof line, "1000 %u 1\n", uid);
  if (!write_file("/proc/self/uid_map", line)) die("id maps");
  snprintf(line, sizeof line, "1000 %u 1\n", gid);
  if (!write_file("/proc/self/gid_map", line)) die("id maps");
}

static pid_t clone_into(unsigned long flags) { return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0); }

/* The unit of systemd forbids namespaces of host name and control groups. They hide two names, and protect nothing: a jail
 * has no capability outside its user namespace, and no control groups are mounted in it. */
static pid_t clone_most(unsigned long flags) {
  pid_t pid = clone_into(flags | CLONE_NEWUTS | CLONE_NEWCGROUP);
  return pid < 0 && errno == EPERM ? clone_into(flags) : pid;
}

static pid_t make_namespaces(void) {
  unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
  if (!spec.host_network) flags |= CLONE_NEWNET;
  uid_t uid = geteuid();
  gid_t gid = getegid();
  int armed[2]; /* the child must not outlive a helper that died before the child set its parent-death signal */
  if (pipe2(armed, O_CLOEXEC) != 0) die("pipe");
  pid_t pid = clone_most(flags);
  if (pid < 0) die("namespaces");
  if (pid > 0) {
    close(armed[0]);
    if (write(armed[1], "x", 1) != 1) kill(pid, SIGKILL);
    close(armed[1]);
    return pid;
  }
  char byte;
  close(armed[1]);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) die("death signal");
  if (read(armed[0], &byte, 1) != 1) _exit(125);
  close(armed[0]);
  map_ids(uid, gid);
  run_init(&spec);
}

/* pid 1 reports how the command ended and exits with 0. Any other status means that something killed pid 1. */
static int wait_for(pid_t init, const sigset_t *signals) {
  bool stopped = false;
  for (;;) {
    int status;
    pid_t ended = waitpid(init, &status, WNOHANG);
    if (ended == init) {
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      if (stopped) report("stopped", -1, -1, "stopped");
      else report("memory", -1, WTERMSIG(status), "the host killed it, probably because the machine is out of memory");
      return 0;
    }
    if (ended < 0 && errno != EINTR) return 125;
    if (sigwaitinfo(signals, NULL) == SIGTERM) {
      stopped = true;
      kill(init, SIGKILL);
    }
  }
}

int main(void) {
  sigset_t all, ours;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL); /* Ctrl-C in the terminal is for the server only */
  sigemptyset(&ours);
  sigaddset(&ours, SIGCHLD);
  sigaddset(&ours, SIGTERM);
  fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
  setsid();
  setpriority(PRIO_PROCESS, 0, 0); /* the server may have a better one */
  read_spec(SPEC_FD, &spec);
  close(SPEC_FD);
  syscall(SYS_close_range, REPORT_FD + 1, ~0U, 0);
  write_file("/proc/self/oom_score_adj", "1000");
  spec.socket_bytes = socket_bytes();
  /* The kernel asks who opened it, so it is opened by root where root started the helper. */
  spec.share_fd = spec.share == NULL ? -1 : open(spec.share, O_WRONLY | O_CLOEXEC);
  drop_root();
  prctl(PR_SET_DUMPABLE, 0);
  die_with_server();
  pid_t init = make_namespaces();
  /* The pipes of the command must close with the last process of the jail, not with the helper. */
  syscall(SYS_close_range, 0, 2, 0);
  return wait_for(init, &ours);
}
