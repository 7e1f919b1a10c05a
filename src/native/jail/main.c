/* The helper: reads the spec, gives up root, makes the namespaces, waits. */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct spec spec;

/* Root is given up before the namespaces are made: a uid 0 of the host must not be what the jail's uid maps to. */
static void drop_root(void) {
  if (geteuid() != 0) return;
  if (spec.uid == 0 || spec.gid == 0) die_because("spec", "started by root, it needs a user and a group to become");
  open_trees(&spec, true);
  gid_t gid = (gid_t)spec.gid;
  uid_t uid = (uid_t)spec.uid;
  /* /dev/stdout opens a pipe anew, which only its owner may. */
  for (int fd = 0; fd <= 2; fd++) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fchown(fd, uid, gid) != 0) die("pipes");
  }
  if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) die("user");
}

/* After the credentials, whose change clears it. A server that died before is one that no longer reads our end. */
static void die_with_server(void) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) die("death signal");
  struct pollfd reader = { .fd = REPORT_FD };
  if (poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)) != 0) _exit(125);
}

/* 1000 inside: an ordinary user, who is nobody on the host but the one that was mapped. */
static void map_ids(uid_t uid, gid_t gid) {
  char line[64];
  prctl(PR_SET_DUMPABLE, 1); /* else these files belong to root */
  if (!write_file("/proc/self/setgroups", "deny")) die("id maps");
  snprintf(line, sizeof line, "1000 %u 1\n", uid);
  if (!write_file("/proc/self/uid_map", line)) die("id maps");
  snprintf(line, sizeof line, "1000 %u 1\n", gid);
  if (!write_file("/proc/self/gid_map", line)) die("id maps");
}

static pid_t make_namespaces(void) {
  unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  if (!spec.host_network) flags |= CLONE_NEWNET;
  uid_t uid = geteuid();
  gid_t gid = getegid();
  int armed[2]; /* the child must not outlive a helper that died before the child asked to be told */
  if (pipe2(armed, O_CLOEXEC) != 0) die("pipe");
  pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
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

/* pid 1 says itself how the command ended and leaves with 0; otherwise something else ended it. */
static int wait_for(pid_t init, const sigset_t *signals) {
  bool stopped = false;
  for (;;) {
    int status;
    pid_t ended = waitpid(init, &status, WNOHANG);
    if (ended == init) {
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      if (stopped) report("stopped", -1, -1, "stopped");
      else report("memory", -1, WTERMSIG(status), "the host ended it, which it does when memory runs out");
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
  sigprocmask(SIG_SETMASK, &all, NULL); /* Ctrl-C at the server's terminal is for the server */
  sigemptyset(&ours);
  sigaddset(&ours, SIGCHLD);
  sigaddset(&ours, SIGTERM);
  fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
  setsid();
  read_spec(SPEC_FD, &spec);
  close(SPEC_FD);
  syscall(SYS_close_range, REPORT_FD + 1, ~0U, 0);
  write_file("/proc/self/oom_score_adj", "1000");
  spec.socket_bytes = socket_bytes();
  drop_root();
  prctl(PR_SET_DUMPABLE, 0);
  die_with_server();
  pid_t init = make_namespaces();
  /* The command's pipes must close when the last of the jail does, not when we do. */
  syscall(SYS_close_range, 0, 2, 0);
  return wait_for(init, &ours);
}
