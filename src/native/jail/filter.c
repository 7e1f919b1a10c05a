/*
 * What no program of a session needs and many an exploit did. A list of what is allowed would be safer and would
 * break half of what people run. Order: architecture, then one comparison for each entry, then the few calls that
 * depend on an argument. Arguments are compared by their low half, which is all the kernel looks at in these.
 */
#include "arch.h"
#include "jail.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers that older headers do not have. */
enum {
  NR_memfd_secret = 447,
  NR_process_madvise = 440,
  NR_process_mrelease = 448,
  NR_quotactl_fd = 443,
  NR_cachestat = 451,
  NR_open_tree_attr = 467,
  NR_lsm_set_self_attr = 460,
  X32_BIT = 0x40000000,
};

struct denied {
  unsigned number;
  unsigned error;
};

static const struct denied table[] = {
  /* namespaces and mounts */
  { SYS_unshare, EPERM }, { SYS_setns, EPERM }, { SYS_mount, EPERM }, { SYS_umount2, EPERM },
  { SYS_pivot_root, EPERM }, { SYS_chroot, EPERM }, { SYS_open_tree, EPERM }, { SYS_move_mount, EPERM },
  { SYS_fsopen, EPERM }, { SYS_fsconfig, EPERM }, { SYS_fsmount, EPERM }, { SYS_fspick, EPERM },
  { SYS_mount_setattr, EPERM }, { NR_open_tree_attr, EPERM },
  { SYS_clone3, ENOSYS }, /* its flags lie in memory, where a filter cannot look; libc then takes clone */
  /* other processes */
  { SYS_ptrace, EPERM }, { SYS_process_vm_readv, EPERM }, { SYS_process_vm_writev, EPERM }, { SYS_kcmp, EPERM },
  { SYS_pidfd_getfd, EPERM }, { NR_process_madvise, EPERM }, { NR_process_mrelease, EPERM },
  { SYS_migrate_pages, EPERM }, { SYS_move_pages, EPERM },
  /* parts of the kernel that were the way in more than once */
  { SYS_bpf, EPERM }, { SYS_perf_event_open, EPERM }, { SYS_userfaultfd, EPERM }, { SYS_keyctl, EPERM },
  { SYS_add_key, EPERM }, { SYS_request_key, EPERM }, { SYS_io_uring_setup, ENOSYS }, { SYS_io_uring_enter, ENOSYS },
  { SYS_io_uring_register, ENOSYS }, { SYS_personality, EPERM }, { SYS_vmsplice, EPERM },
  { SYS_fanotify_init, EPERM }, { SYS_fanotify_mark, EPERM }, { NR_lsm_set_self_attr, EPERM },
  /* the machine */
  { SYS_kexec_load, EPERM }, { SYS_kexec_file_load, EPERM }, { SYS_init_module, EPERM },
  { SYS_finit_module, EPERM }, { SYS_delete_module, EPERM }, { SYS_reboot, EPERM }, { SYS_swapon, EPERM },
  { SYS_swapoff, EPERM }, { SYS_syslog, EPERM }, { SYS_acct, EPERM }, { SYS_quotactl, EPERM },
  { NR_quotactl_fd, EPERM }, { SYS_settimeofday, EPERM }, { SYS_clock_settime, EPERM },
  { SYS_clock_adjtime, EPERM }, { SYS_adjtimex, EPERM },
  { SYS_vhangup, EPERM }, { SYS_lookup_dcookie, EPERM }, { SYS_nfsservctl, EPERM },
  { SYS_sethostname, EPERM }, { SYS_setdomainname, EPERM },
  /* calls that only some architectures have */
#ifdef SYS_modify_ldt
  { SYS_modify_ldt, EPERM },
#endif
#ifdef SYS_iopl
  { SYS_iopl, EPERM }, { SYS_ioperm, EPERM },
#endif
#ifdef SYS_uselib
  { SYS_uselib, EPERM }, { SYS_ustat, EPERM }, { SYS_sysfs, EPERM },
#endif
  /* files past the tree */
  { SYS_open_by_handle_at, EPERM }, { SYS_name_to_handle_at, EPERM },
  /* memory that belongs to no process, so that none is charged for it */
  { SYS_memfd_create, ENOSYS }, { NR_memfd_secret, ENOSYS }, { SYS_shmget, ENOSYS }, { SYS_shmat, ENOSYS },
  { SYS_shmctl, ENOSYS }, { SYS_msgget, ENOSYS }, { SYS_msgsnd, ENOSYS }, { SYS_semget, ENOSYS },
  { SYS_mq_open, ENOSYS },
  /* one byte in a pipe or a socket keeps the whole piece of the file's memory that it lies in: 2 MiB, after the file too */
  { SYS_splice, ENOSYS }, { SYS_tee, ENOSYS }, { SYS_sendfile, ENOSYS },
};

enum { TABLE_COUNT = sizeof table / sizeof table[0], MAX_FILTER = 2 * TABLE_COUNT + 64 };

static struct sock_filter code[MAX_FILTER];
static unsigned short length;

static void put(unsigned short op, unsigned value, unsigned char if_true, unsigned char if_false) {
  code[length++] = (struct sock_filter){ op, if_true, if_false, value };
}

static void load(size_t offset) { put(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0); }
static void answer(unsigned value) { put(BPF_RET | BPF_K, value, 0, 0); }
static void skip_unless_equal(unsigned value, unsigned char skip) { put(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip); }
static void skip_if_equal(unsigned value, unsigned char skip) { put(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0); }
static void skip_unless_any(unsigned bits, unsigned char skip) { put(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip); }

static void refuse(unsigned error) { answer(SECCOMP_RET_ERRNO | error); }
static void allow(void) { answer(SECCOMP_RET_ALLOW); }

#define NUMBER offsetof(struct seccomp_data, nr)
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))

static void check_architecture(void) {
  load(offsetof(struct seccomp_data, arch));
  skip_if_equal(THIS_AUDIT_ARCH, 1);
  answer(SECCOMP_RET_KILL_PROCESS);
  load(NUMBER);
  put(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  refuse(ENOSYS);
}

static void check_clone(void) {
  const unsigned new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                  CLONE_NEWPID | CLONE_NEWNET;
  skip_unless_equal(SYS_clone, 4);
  load(ARGUMENT(0));
  skip_unless_any(new_namespaces, 1);
  refuse(EPERM);
  allow();
}

/* Typing into the terminal, and its kernel-side cousin; subvolumes of btrfs, each a device that no quota of ours sees. */
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

/* A socket's buffers stay as large as the count of sockets takes them for. It is told yes: the kernel cuts them too. */
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

/* Limits of other processes: pid 1 is of the same user. */
static void check_prlimit(void) {
  skip_unless_equal(SYS_prlimit64, 4);
  load(ARGUMENT(0));
  skip_if_equal(0, 1);
  refuse(EPERM);
  allow();
}

/* Netlink, packet, vsock, alg and the many others are large and little tested. */
static void check_socket(unsigned number, bool unix_too) {
  skip_unless_equal(number, unix_too ? 6 : 5);
  load(ARGUMENT(0));
  skip_if_equal(AF_INET, unix_too ? 3 : 2);
  skip_if_equal(AF_INET6, unix_too ? 2 : 1);
  if (unix_too) skip_if_equal(AF_UNIX, 1);
  refuse(EAFNOSUPPORT);
  allow();
}

static void build(bool unix_sockets) {
  check_architecture();
  for (size_t i = 0; i < TABLE_COUNT; i++) {
    skip_unless_equal(table[i].number, 1);
    refuse(table[i].error);
  }
  check_clone();
  check_ioctl();
  check_setsockopt();
  check_prlimit();
  check_socket(SYS_socket, unix_sockets);
  check_socket(SYS_socketpair, true);
  allow();
}

/* Where the host's abstract sockets cannot be kept away otherwise, there are no unix sockets but pairs. */
bool install_filter(bool host_network, bool abstract_sockets_scoped) {
  build(!host_network || abstract_sockets_scoped);
  struct sock_fprog program = { .len = length, .filter = code };
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}
