/*
 * Abstract unix sockets have no file: they belong to the network namespace, and with the host's network those of the
 * host's daemons would be in reach. From 6.12 on landlock keeps a process from those made outside its domain.
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
