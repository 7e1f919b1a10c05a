/*
 * The seccomp filter of sessions. It denies system calls that programs do not need and that exploits used. An allow-list
 * would be safer, but would break many programs. Order: the architecture, one comparison for each denied call, then the
 * calls that depend on an argument. Only the low half of these arguments is compared, as the kernel does.
 */
#include "denied.h"
#include "jail.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct denied of_sessions[] = {
  /* memory that is charged to no process */
  { SYS_memfd_create, ENOSYS }, { NR_memfd_secret, ENOSYS }, { SYS_shmget, ENOSYS }, { SYS_shmat, ENOSYS },
  { SYS_shmctl, ENOSYS }, { SYS_msgget, ENOSYS }, { SYS_msgsnd, ENOSYS }, { SYS_semget, ENOSYS },
  { SYS_mq_open, ENOSYS },
  /* one byte of a file in a pipe or socket pins its whole folio: up to 2 MiB, also after the file was deleted */
  { SYS_splice, ENOSYS }, { SYS_tee, ENOSYS }, { SYS_sendfile, ENOSYS },
};

/* Denies input into the terminal (TIOCSTI and TIOCLINUX), and subvolumes of btrfs, which our quota does not see. */
static void check_ioctl(void) {
  static const unsigned refused[] = { TIOCSTI, 0x541C, 0x50009401, 0x5000940E, 0x50009417, 0x50009418 };
  enum { COUNT = sizeof refused / sizeof refused[0] };
  skip_unless_equal(SYS_ioctl, 2 * COUNT + 2);
  load(ARGUMENT(1));
  for (size_t i = 0; i < COUNT; i++) {
    skip_unless_equal(refused[i], 1);
    refuse(EPERM);
  }
  allow();
}

/* Buffers of sockets keep the size that the memory limit assumes. The call succeeds without effect. */
static void check_setsockopt(void) {
  skip_unless_equal(SYS_setsockopt, 7);
  load(ARGUMENT(1));
  skip_unless_equal(SOL_SOCKET, 4);
  load(ARGUMENT(2));
  skip_if_equal(SO_SNDBUF, 1);
  skip_unless_equal(SO_RCVBUF, 1);
  refuse(0);
  allow();
}

/* Denies changing limits of other processes, because pid 1 has the same user. */
static void check_prlimit(void) {
  skip_unless_equal(SYS_prlimit64, 4);
  load(ARGUMENT(0));
  skip_if_equal(0, 1);
  refuse(EPERM);
  allow();
}

/* Allows only internet and unix sockets. The code for netlink, packet, vsock, alg and others is large and little tested. */
static void check_socket(unsigned number, bool unix_too) {
  skip_unless_equal(number, unix_too ? 6 : 5);
  load(ARGUMENT(0));
  skip_if_equal(AF_INET, unix_too ? 3 : 2);
  skip_if_equal(AF_INET6, unix_too ? 2 : 1);
  if (unix_too) skip_if_equal(AF_UNIX, 1);
  refuse(EAFNOSUPPORT);
  allow();
}

/* The command could otherwise move to processors that it did not get. */
static void keep_processors(void) {
  skip_unless_equal(SYS_sched_setaffinity, 1);
  refuse(EPERM);
}

static void build(struct filter_options options) {
  check_architecture();
  deny_always();
  deny(of_sessions, sizeof of_sessions / sizeof of_sessions[0]);
  check_clone();
  check_ioctl();
  check_setsockopt();
  check_prlimit();
  if (options.pinned) keep_processors();
  check_socket(SYS_socket, options.unix_sockets);
  check_socket(SYS_socketpair, true);
  allow();
}

bool install_filter(struct filter_options options) {
  build(options);
  if (!filter_fits()) {
    errno = E2BIG;
    return false;
  }
  struct sock_fprog program = { .len = length, .filter = code };
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}
