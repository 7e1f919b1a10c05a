/*
 * The file system of the jail: a tmpfs with the mounts of the spec, and nothing else.
 *
 * First every source is opened as a detached mount. Then the tree of the host is removed from the namespace. Only then
 * are mount points made. So a symlink that jailed code left in a writable directory cannot lead to the host.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The headers of libc and of the kernel both define these; old headers do not define them. */
enum {
  TREE_CLONE = 1,
  TREE_CLOEXEC = O_CLOEXEC,
  CLOEXEC = 1, /* for the new mount calls */
  CREATE = 6,
  EMPTY_PATH = 0x1000,
  RECURSIVE = 0x8000,
  MOVE_EMPTY_PATH = 4,
  ATTR_RDONLY = 1,
  ATTR_NOSUID = 2,
  ATTR_NODEV = 4,
  ATTR_NOEXEC = 8,
};
struct attributes {
  uint64_t set, clear, propagation, userns_fd;
};

static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" };
enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };
static int device_trees[DEVICE_COUNT] = { -1, -1, -1, -1, -1 };

static int set_attributes(int fd, const char *path, uint64_t set, uint64_t propagation) {
  struct attributes attributes = { .set = set, .propagation = propagation };
  unsigned flags = (path[0] == '\0' ? EMPTY_PATH : 0) | RECURSIVE;
  return (int)syscall(SYS_mount_setattr, fd, path, flags, &attributes, sizeof attributes);
}

/* Make it private at once: later mounts of the host must not appear here, nor the reverse. */
static int open_tree_of(const char *path, uint64_t set) {
  int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | TREE_CLOEXEC | RECURSIVE);
  if (tree < 0) return -1;
  if (set_attributes(tree, "", set, MS_PRIVATE) == 0) return tree;
  int saved = errno;
  close(tree);
  if (saved == ENOSYS) die_because("mount_setattr", "this kernel is older than 5.12");
  errno = saved;
  return -1;
}

/*
 * A helper that root started opens the sources before it changes its user, because that user may not reach them (a data
 * directory of root). It may fail, because root in a container may have no rights. They are then opened later.
 */
void open_trees(struct spec *spec, bool may_fail) {
  for (int i = 0; i < spec->mount_count; i++) {
    struct mount_spec *m = &spec->mounts[i];
    if (m->kind == DEVICES) {
      for (int d = 0; d < DEVICE_COUNT; d++) {
        if (device_trees[d] >= 0) continue;
        device_trees[d] = open_tree_of(devices[d], ATTR_NOSUID | ATTR_NOEXEC);
        if (device_trees[d] < 0 && !may_fail) die(devices[d]);
      }
    }
    if ((m->kind != READ_ONLY && m->kind != WRITABLE && m->kind != DEVICE) || m->tree >= 0) continue;
    uint64_t read_only = m->kind == READ_ONLY ? ATTR_RDONLY : 0;
    m->tree = open_tree_of(m->from, ATTR_NOSUID | (m->kind == DEVICE ? ATTR_NOEXEC : ATTR_NODEV | read_only));
    struct stat st;
    if (m->tree < 0 || fstat(m->tree, &st) != 0) {
      if (may_fail) continue;
      die(m->from);
    }
    m->is_dir = S_ISDIR(st.st_mode);
  }
}

/*
 * Done while the /proc of the host is still mounted: the kernel allows a new /proc in a user namespace only if another
 * one is fully visible.
 */
static int open_new_proc(void) {
  int fs = (int)syscall(SYS_fsopen, "proc", CLOEXEC);
  if (fs < 0 || syscall(SYS_fsconfig, fs, CREATE, NULL, NULL, 0) != 0) die("proc");
  int tree = (int)syscall(SYS_fsmount, fs, CLOEXEC, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC);
  if (tree < 0 && errno == EPERM) die_because("proc", "the /proc of the host is partly hidden, so a new one cannot be mounted");
  if (tree < 0) die("proc");
  close(fs);
  return tree;
}

static void make_parents(const char *path) {
  char copy[4096];
  if (strlen(path) >= sizeof copy) die_because("mounts", "a path is too long");
  strcpy(copy, path);
  for (char *c = copy + 1; *c != '\0'; c++) {
    if (*c != '/') continue;
    *c = '\0';
    if (mkdir(copy, 0755) != 0 && errno != EEXIST) die(path);
    *c = '/';
  }
}

static void make_point(const char *path, bool is_dir) {
  make_parents(path);
  if (is_dir) {
    if (mkdir(path, 0755) != 0 && errno != EEXIST) die(path);
    return;
  }
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) die(path);
  close(fd);
}

static void attach(int tree, const char *path, bool is_dir) {
  make_point(path, is_dir);
  if (syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_EMPTY_PATH) != 0) die(path);
  close(tree);
}

static void make_text_file(const struct mount_spec *m) {
  make_parents(m->to);
  int fd = open(m->to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
  if (fd < 0) die(m->to);
  if (write(fd, m->from, m->from_bytes) != (ssize_t)m->from_bytes) die(m->to);
  close(fd);
}

static void make_tmpfs(const struct mount_spec *m) {
  char options[96];
  make_point(m->to, true);
  /* Inodes use kernel memory that no page counter shows: allow one for each 4 KiB, independent of the page size. */
  enum { BYTES_PER_INODE = 4096 };
  unsigned long long inodes = m->bytes / BYTES_PER_INODE + 64;
  snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=1777", (unsigned long long)m->bytes, inodes);
  if (mount("tmpfs", m->to, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0) die(m->to);
  count_tmpfs(m->to);
}

static void make_devices(void) {
  for (int d = 0; d < DEVICE_COUNT; d++) attach(device_trees[d], devices[d], false);
  static const char *const links[][2] = {
    { "/proc/self/fd", "/dev/fd" },
    { "/proc/self/fd/0", "/dev/stdin" },
    { "/proc/self/fd/1", "/dev/stdout" },
    { "/proc/self/fd/2", "/dev/stderr" },
  };
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
    if (symlink(links[i][0], links[i][1]) != 0) die(links[i][1]);
}

static void make_mount(struct mount_spec *m) {
  switch (m->kind) {
    case READ_ONLY:
    case WRITABLE:
    case DEVICE: attach(m->tree, m->to, m->is_dir); break;
    case TMPFS: make_tmpfs(m); break;
    case SYMLINK:
      make_parents(m->to);
      if (symlink(m->from, m->to) != 0) die(m->to);
      break;
    case TEXT_FILE: make_text_file(m); break;
    case DEVICES: make_devices(); break;
    case PROC: attach(m->tree, "/proc", true); break;
  }
}

/* The new root is mounted over the old one, which is then detached. */
static void leave_host(void) {
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) die("mounts");
  static const char *const places[] = { "/tmp", "/usr", "/proc" };
  const char *place = NULL;
  for (size_t i = 0; i < sizeof places / sizeof places[0] && place == NULL; i++)
    if (mount("tmpfs", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "size=8m,nr_inodes=2048,mode=755") == 0) place = places[i];
  if (place == NULL) die("tmpfs");
  if (chdir(place) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) die("pivot_root");
  if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) die("detach of the host's files");
}

void build_root(struct spec *spec) {
  open_trees(spec, false);
  for (int i = 0; i < spec->mount_count; i++)
    if (spec->mounts[i].kind == PROC) spec->mounts[i].tree = open_new_proc();
  umask(022);
  leave_host();
  for (int i = 0; i < spec->mount_count; i++) make_mount(&spec->mounts[i]);
}

/* /proc too: otherwise a process could lower its oom_score_adj, which makes it the first victim of the OOM killer. */
void seal_root(void) {
  struct attributes sealed = { .set = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV };
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &sealed, sizeof sealed) != 0) die("read-only root");
  if (has_proc() && syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, &sealed, sizeof sealed) != 0) die("read-only /proc");
}
