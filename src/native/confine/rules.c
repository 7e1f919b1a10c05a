/* Landlock rules: the files that can be opened, and how. All other files are denied. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h of older machines lacks the newer rights. */
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
  /* no symbolic links and named pipes: the server reads the files of a worker, and would follow the one and block on the other */
  [WRITES] = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG |
             MAKE_SOCK | REFER,
  [UPDATES] = READ_FILE | WRITE_FILE, /* another process has mapped it, and truncating the file would crash that process */
  [DRIVES] = READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV,
};

struct ruleset {
  uint64_t files, network, scoped;
};
struct beneath {
  uint64_t rights;
  int32_t parent;
} __attribute__((packed));

/* All rights that this version of the kernel can deny. */
static uint64_t rights_known(long version) {
  const int count = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
  return (1ULL << count) - 1;
}

/* A rule for a missing path is skipped, because the path cannot be read anyway. */
static bool may_be_absent(enum access access) { return access == READS || access == DRIVES; }

/*
 * A rule applies to an inode, and the kernel makes a new inode for a folder of /proc that it dropped from its cache. It
 * drops none that is open, so the descriptor stays open in the worker.
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
  if (version >= 6) rules.scoped = SCOPES; /* no abstract sockets of, and no signals to, processes outside */
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
