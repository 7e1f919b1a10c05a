/*
 * Abstract unix sockets have no file and belong to the network namespace. With the network of the host, a command could
 * reach the sockets of daemons. Since Linux 6.12 landlock blocks sockets from outside the domain.
 */
#include "jail.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1, FIRST_ABI_WITH_SCOPES = 6, ASK_VERSION = 1 };
struct ruleset {
  uint64_t files, network, scoped;
};

bool scope_abstract_sockets(void) {
  if (syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION) < FIRST_ABI_WITH_SCOPES) return false;
  struct ruleset rules = { .scoped = SCOPE_ABSTRACT_UNIX_SOCKET };
  int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
  if (fd < 0) return false;
  bool ok = syscall(SYS_landlock_restrict_self, fd, 0) == 0;
  close(fd);
  return ok;
}
