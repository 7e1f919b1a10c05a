/* Moves the process to a network without devices, and drops all capabilities. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

/* An ordinary user needs a user namespace for it. The worker keeps its uid there, because its files belong to the server. */
bool leave_network(void) {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  if (uid == 0) return unshare(CLONE_NEWNET) == 0;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  char line[64];
  if (!write_text("/proc/self/setgroups", "deny")) return false;
  snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
  if (!write_text("/proc/self/uid_map", line)) return false;
  snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
  return write_text("/proc/self/gid_map", line);
}

/* With no_new_privs, an exec by root does not restore them. `owner` keeps the right to give files to the user of sessions. */
bool drop_capabilities(bool owner) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct data[2] = { 0 };
  if (owner && geteuid() == 0) {
    const unsigned kept = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER;
    struct __user_cap_data_struct had[2] = { 0 };
    if (syscall(SYS_capget, &header, had) != 0) return false;
    data[0].effective = data[0].permitted = kept & had[0].permitted;
  }
  return syscall(SYS_capset, &header, data) == 0;
}
