/* What lies under the limited directory: its tree, and files that have no name any more but are still open. */
#include "jail.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_DEPTH = 256, UNLINKED_SLOTS = 4096, MEANWHILE_ENTRIES = 512 };

static int root = -1;
static dev_t device;
static ino_t unlinked[UNLINKED_SLOTS]; /* those counted in this measurement; 0 = free */
static int unlinked_count;

bool disk_open(const char *at) {
  struct stat st;
  root = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0 || fstat(root, &st) != 0) return false;
  device = st.st_dev;
  return true;
}

uint64_t disk_free_bytes(void) {
  struct statvfs fs;
  return root >= 0 && fstatvfs(root, &fs) == 0 ? (uint64_t)fs.f_bfree * fs.f_frsize : 0;
}

struct walk {
  struct disk_use *use;
  const struct disk_use *stop_above;
  void (*meanwhile)(void);
  bool too_deep;
};

static bool is_over(const struct walk *walk) {
  return walk->use->bytes > walk->stop_above->bytes || walk->use->entries > walk->stop_above->entries;
}

/* A volume that is mounted there has its own owner. */
static int open_same_mount(int dir, const char *name) {
  struct open_how how = {
    .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
  };
  return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

/* Names go and come while we walk; one that is missed now is seen the next time. */
static void walk_dir(int fd, int depth, struct walk *walk) {
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    close(fd);
    return;
  }
  for (struct dirent *entry; !is_over(walk) && (entry = readdir(dir)) != NULL;) {
    struct stat st;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) continue;
    if (st.st_dev != device) continue;
    if (++walk->use->entries % MEANWHILE_ENTRIES == 0) walk->meanwhile();
    /* A hard link shares its blocks; the first of its names would need a memory of all inodes. */
    walk->use->bytes += (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink);
    if (!S_ISDIR(st.st_mode)) continue;
    if (depth == MAX_DEPTH) {
      walk->too_deep = true;
      continue;
    }
    int sub = open_same_mount(dirfd(dir), entry->d_name);
    if (sub >= 0) walk_dir(sub, depth + 1, walk);
  }
  closedir(dir);
}

static bool is_new(ino_t inode) {
  if (unlinked_count > UNLINKED_SLOTS * 3 / 4) return true; /* counted twice rather than not at all */
  size_t slot = (size_t)inode % UNLINKED_SLOTS;
  while (unlinked[slot] != 0 && unlinked[slot] != inode) slot = (slot + 1) % UNLINKED_SLOTS;
  if (unlinked[slot] == inode) return false;
  unlinked[slot] = inode;
  unlinked_count++;
  return true;
}

static void add_open_files(int task, void *context) {
  struct walk *walk = context;
  if (is_over(walk)) return;
  int fd = openat(task, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *files = fd < 0 ? NULL : fdopendir(fd);
  if (files == NULL) {
    if (fd >= 0) close(fd);
    return;
  }
  for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
    struct stat st;
    if (entry->d_name[0] == '.' || fstatat(dirfd(files), entry->d_name, &st, 0) != 0) continue;
    if (st.st_dev != device || st.st_nlink != 0 || !is_new(st.st_ino)) continue;
    walk->use->bytes += (uint64_t)st.st_blocks * 512;
    walk->use->entries++;
  }
  closedir(files);
}

/* Threads may have tables of open files of their own. */
static void add_process_files(int process, void *context) { each_task(process, add_open_files, context); }

/* Stops counting above `stop_above`, and calls `meanwhile` now and then. False: it lies deeper than can be measured. */
bool disk_measure(struct disk_use *use, const struct disk_use *stop_above, void (*meanwhile)(void)) {
  *use = (struct disk_use){ 0 };
  struct walk walk = { .use = use, .stop_above = stop_above, .meanwhile = meanwhile };
  int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) walk_dir(fd, 0, &walk);
  memset(unlinked, 0, sizeof unlinked);
  unlinked_count = 0;
  each_process(add_process_files, &walk);
  return !walk.too_deep;
}
