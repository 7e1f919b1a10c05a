/* System calls that neither sessions nor workers need, and that exploits used. */
#ifndef VERK_DENIED_H
#define VERK_DENIED_H

#include "bpf.h"

#include <sched.h>
#include <sys/syscall.h>

/* Numbers that older headers do not have. */
enum {
  NR_process_madvise = 440,
  NR_quotactl_fd = 443,
  NR_memfd_secret = 447,
  NR_process_mrelease = 448,
  NR_cachestat = 451,
  NR_lsm_set_self_attr = 460,
  NR_open_tree_attr = 467,
};

struct denied {
  unsigned number;
  unsigned error;
};

static const struct denied always_denied[] = {
  /* namespaces and mounts */
  { SYS_unshare, EPERM }, { SYS_setns, EPERM }, { SYS_mount, EPERM }, { SYS_umount2, EPERM },
  { SYS_pivot_root, EPERM }, { SYS_chroot, EPERM }, { SYS_open_tree, EPERM }, { SYS_move_mount, EPERM },
  { SYS_fsopen, EPERM }, { SYS_fsconfig, EPERM }, { SYS_fsmount, EPERM }, { SYS_fspick, EPERM },
  { SYS_mount_setattr, EPERM }, { NR_open_tree_attr, EPERM },
  { SYS_clone3, ENOSYS }, /* its flags are in memory, which a filter cannot read; libc falls back to clone */
  /* other processes */
  { SYS_ptrace, EPERM }, { SYS_process_vm_readv, EPERM }, { SYS_process_vm_writev, EPERM }, { SYS_kcmp, EPERM },
  { SYS_pidfd_getfd, EPERM }, { NR_process_madvise, EPERM }, { NR_process_mrelease, EPERM },
  { SYS_migrate_pages, EPERM }, { SYS_move_pages, EPERM },
  /* parts of the kernel with a history of exploits */
  { SYS_bpf, EPERM }, { SYS_perf_event_open, EPERM }, { SYS_userfaultfd, EPERM }, { SYS_keyctl, EPERM },
  { SYS_add_key, EPERM }, { SYS_request_key, EPERM }, { SYS_io_uring_setup, ENOSYS }, { SYS_io_uring_enter, ENOSYS },
  { SYS_io_uring_register, ENOSYS }, { SYS_personality, EPERM }, { SYS_vmsplice, EPERM },
  { SYS_fanotify_init, EPERM }, { SYS_fanotify_mark, EPERM }, { NR_lsm_set_self_attr, EPERM },
  /* fs.aio-max-nr is a limit of the whole machine, so a session could use it up for the host */
  { SYS_io_setup, ENOSYS },
  /* the pages of a file in memory reveal what other processes read */
  { NR_cachestat, EPERM },
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
  /* access to files without a path */
  { SYS_open_by_handle_at, EPERM }, { SYS_name_to_handle_at, EPERM },
};

static void deny(const struct denied *table, size_t count) {
  for (size_t i = 0; i < count; i++) {
    skip_unless_equal(table[i].number, 1);
    refuse(table[i].error);
  }
}

static void deny_always(void) { deny(always_denied, sizeof always_denied / sizeof always_denied[0]); }

/* Allows processes and threads, but no new namespaces. */
static void check_clone(void) {
  const unsigned new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                  CLONE_NEWPID | CLONE_NEWNET;
  skip_unless_equal(SYS_clone, 4);
  load(ARGUMENT(0));
  skip_unless_any(new_namespaces, 1);
  refuse(EPERM);
  allow();
}

#endif
