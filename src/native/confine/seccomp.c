/*
 * The seccomp filter of workers: system calls that are denied. An allow-list would be safer, but would break with the
 * next version of a driver or of the runtime. Later threads inherit the filter.
 */
#include "confine.h"
#include "denied.h"

#include <sys/socket.h>
#include <unistd.h>

enum { SPEC_ALLOW = 4, TYPE_MASK = 0xf };

static const struct denied of_workers[] = {
  /* memory that outlives a process, and queues that other processes can open */
  { SYS_shmget, ENOSYS }, { SYS_msgget, ENOSYS }, { SYS_semget, ENOSYS }, { SYS_mq_open, ENOSYS },
  { NR_memfd_secret, ENOSYS },
  /* signals whose arguments do not name the process by its pid */
  { SYS_pidfd_send_signal, EPERM }, { SYS_tkill, EPERM },
};

/* Allows signals and limits only for this process: the server and the other workers have the same user. */
static void only_self(unsigned number, unsigned self, bool zero_too) {
  skip_unless_equal(number, zero_too ? 5 : 4);
  load(ARGUMENT(0));
  skip_if_equal(self, zero_too ? 2 : 1);
  if (zero_too) skip_if_equal(0, 1);
  refuse(EPERM);
  allow();
}

static void take_if_equal(unsigned value) {
  skip_unless_equal(value, 1);
  allow();
}

/* For workers that open outbound connections. Unix sockets would lead to daemons of the host and to other workers. */
static void check_network_sockets(bool listens) {
  skip_unless_equal(SYS_socket, listens ? 8 : 6);
  load(ARGUMENT(0));
  take_if_equal(AF_INET);
  take_if_equal(AF_INET6);
  if (listens) take_if_equal(AF_UNIX);
  refuse(EAFNOSUPPORT);
}

/* Allows only unix sockets that must be connected before sending: a datagram could be sent to any address. */
static void check_unix(unsigned number) {
  skip_unless_equal(number, 10);
  load(ARGUMENT(0));
  skip_if_equal(AF_UNIX, 1);
  refuse(EAFNOSUPPORT);
  load(ARGUMENT(1));
  put(BPF_ALU | BPF_AND | BPF_K, TYPE_MASK, 0, 0);
  take_if_equal(SOCK_STREAM);
  take_if_equal(SOCK_SEQPACKET); /* GPU drivers listen on such a socket */
  refuse(EAFNOSUPPORT);
}

/* For workers that listen and never connect. */
static void check_local_sockets(void) {
  check_unix(SYS_socket);
  skip_unless_equal(SYS_connect, 1);
  refuse(EPERM);
}

bool install_filter(const struct options *options, unsigned self) {
  check_architecture();
  deny_always();
  deny(of_workers, sizeof of_workers / sizeof of_workers[0]);
  check_clone();
  only_self(SYS_kill, self, false);
  only_self(SYS_tgkill, self, false);
  only_self(SYS_rt_sigqueueinfo, self, false);
  only_self(SYS_rt_tgsigqueueinfo, self, false);
  only_self(SYS_prlimit64, self, true);
  check_unix(SYS_socketpair);
  if (options->network) check_network_sockets(options->listens);
  else check_local_sockets();
  allow();
  if (!filter_fits()) {
    errno = E2BIG;
    return false;
  }
  struct sock_fprog program = { .len = length, .filter = code };
  /* Without the flag, kernels before 5.16 slow the whole process down. A worker runs no untrusted code, so it is safe. */
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SPEC_ALLOW, &program) == 0;
}
