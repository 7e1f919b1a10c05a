/* Landlock: which files can be opened, and how. What is not named cannot be. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h of an older machine has no names for the newer rights. */
enum {
  EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, REMOVE_DIR = 1 << 4,
  REMOVE_FILE = 1 << 5, MAKE_DIR = 1 << 7, MAKE_REG = 1 << 8, MAKE_SOCK = 1 << 9, REFER = 1 << 13,
  TRUNCATE = 1 << 14, IOCTL_DEV = 1 << 15,
};
enum { RULE_PATH_BENEATH = 1, ASK_VERSION = 1, TCP = 3, SCOPES = 3 };
enum { OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV };

static const uint64_t RIGHTS[] = {
  [READS] = READ_FILE | READ_DIR,
  [RUNS] = READ_FILE | READ_DIR | EXECUTE,
  /* no symbolic link and no named pipe: the server reads what a worker leaves, and would follow the one and wait at the other */
  [WRITES] = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG |
             MAKE_SOCK | REFER,
  [UPDATES] = READ_FILE | WRITE_FILE, /* another process has it mapped: a shorter file would end that process */
  [DRIVES] = READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV,
};

struct ruleset {
  uint64_t files, network, scoped;
};
struct beneath {
  uint64_t rights;
  int32_t parent;
} __attribute__((packed));

/* All that this version of the kernel's interface can refuse. */
static uint64_t rights_known(long version) {
  const int count = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
  return (1ULL << count) - 1;
}

/* A file system without what a rule names is as good as one where it may not be read. */
static bool may_be_absent(enum access access) { return access == READS || access == DRIVES; }

/*
 * A rule holds for an inode, and the kernel makes another one for a folder of /proc that it has forgotten. It forgets
 * none that is open: such a descriptor stays with the worker.
 */
static bool must_stay_open(const char *path) { return strncmp(path, "/proc/self/", 11) == 0; }

static int add(int set, const struct rule *rule, uint64_t known) {
  const bool stays = must_stay_open(rule->path);
  int fd = open(rule->path, O_PATH | (stays ? 0 : O_CLOEXEC));
  if (fd < 0) return may_be_absent(rule->access) ? 0 : errno;
  struct stat st;
  int error = 0;
  if (fstat(fd, &st) != 0) error = errno;
  else {
    uint64_t rights = RIGHTS[rule->access] & known;
    if (!S_ISDIR(st.st_mode)) rights &= OF_FILES;
    struct beneath beneath = { .rights = rights, .parent = fd };
    if (syscall(SYS_landlock_add_rule, set, RULE_PATH_BENEATH, &beneath, 0) != 0) error = errno;
  }
  if (!stays) close(fd);
  return error;
}

int restrict_files(const struct options *options, const char **which) {
  *which = "landlock";
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
  if (version < 1) return errno;
  const uint64_t known = rights_known(version);
  struct ruleset rules = { .files = known };
  if (version >= 4 && !options->network) rules.network = TCP;
  if (version >= 6) rules.scoped = SCOPES; /* no abstract socket and no signal to a process outside */
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  int set = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
  if (set < 0) return errno;
  int error = 0;
  for (size_t i = 0; i < options->rule_count && error == 0; i++) {
    *which = options->rules[i].path;
    error = add(set, &options->rules[i], known);
  }
  if (error == 0) {
    *which = "landlock";
    if (syscall(SYS_landlock_restrict_self, set, 0) != 0) error = errno;
  }
  close(set);
  return error;
}
