/* Usage of the limited directory: its tree, and deleted files that are still open. */
#include "jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { MAX_DEPTH = 256, MEANWHILE_ENTRIES = 512 };

static int root = -1;
static dev_t device;

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
  bool (*meanwhile)(void);
  enum disk_result result;
};

static bool is_over(const struct walk *walk) {
  return walk->result == GIVEN_UP || walk->use->bytes > walk->stop_above->bytes || walk->use->entries > walk->stop_above->entries;
}

static bool is_same_mount(int one, int other) {
  struct statx a, b;
  return statx(one, "", AT_EMPTY_PATH, STATX_MNT_ID, &a) == 0 && statx(other, "", AT_EMPTY_PATH, STATX_MNT_ID, &b) == 0 &&
         (a.stx_mask & b.stx_mask & STATX_MNT_ID) != 0 && a.stx_mnt_id == b.stx_mnt_id;
}

/* Does not enter a volume that is mounted there. Not by openat2: RestrictSUIDSGID of systemd forbids it. */
static int open_same_mount(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || is_same_mount(dir, fd)) return fd;
  close(fd);
  errno = EXDEV;
  return -1;
}

/* Names change during the walk. A file that is missed is found the next time. */
static void walk_dir(int fd, int depth, struct walk *walk) {
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    must_see();
    close(fd);
    return;
  }
  for (struct dirent *entry; !is_over(walk) && (entry = readdir(dir)) != NULL;) {
    struct stat st;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) continue;
    if (st.st_dev != device) continue;
    if (++walk->use->entries % MEANWHILE_ENTRIES == 0 && !walk->meanwhile()) walk->result = GIVEN_UP;
    /* Hard links share their blocks. Counting only the first name would need a list of all inodes. */
    walk->use->bytes += (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink);
    if (!S_ISDIR(st.st_mode)) continue;
    if (depth == MAX_DEPTH) {
      walk->result = TOO_DEEP;
      continue;
    }
    int sub = open_same_mount(dirfd(dir), entry->d_name);
    if (sub >= 0) walk_dir(sub, depth + 1, walk);
    else must_see();
  }
  closedir(dir);
}

static void add_open_files(int task, void *context) {
  struct walk *walk = context;
  if (is_over(walk)) return;
  DIR *files = open_dir(task, "fd");
  if (files == NULL) return;
  for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
    struct stat st;
    if (entry->d_name[0] == '.' || fstatat(dirfd(files), entry->d_name, &st, 0) != 0) continue;
    if (st.st_dev != device || st.st_nlink != 0 || !is_new_inode(st.st_ino)) continue;
    walk->use->bytes += (uint64_t)st.st_blocks * 512;
    walk->use->entries++;
  }
  closedir(files);
}

/* Threads may have their own tables of open files. */
static void add_process_files(int process, void *context) { each_task(process, add_open_files, context); }

/* Stops above `stop_above`, or if `meanwhile`, which is called from time to time, returns true. */
enum disk_result disk_measure(struct disk_use *use, const struct disk_use *stop_above, bool (*meanwhile)(void)) {
  *use = (struct disk_use){ 0 };
  struct walk walk = { .use = use, .stop_above = stop_above, .meanwhile = meanwhile, .result = MEASURED };
  int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) walk_dir(fd, 0, &walk);
  forget_inodes();
  each_process(add_process_files, &walk);
  return walk.result;
}

/* A line of maps: "from-to perms offset major:minor inode  name". */
static bool is_deleted_here(const char *line) {
  unsigned major_number, minor_number;
  if (strstr(line, " (deleted)") == NULL || sscanf(line, "%*s %*s %*s %x:%x", &major_number, &minor_number) != 2) return false;
  return makedev(major_number, minor_number) == device;
}

static void look_in_maps(int task, void *context) {
  bool *found = context;
  FILE *maps = *found ? NULL : open_text(task, "maps");
  if (maps == NULL) return;
  char line[512];
  while (!*found && fgets(line, sizeof line, maps) != NULL) *found = is_deleted_here(line);
  fclose(maps);
}

/* Files that were sent to a unix socket and not received. */
static void look_in_sockets(int task, void *context) {
  bool *found = context;
  DIR *files = *found ? NULL : open_dir(task, "fdinfo");
  if (files == NULL) return;
  for (struct dirent *entry; !*found && (entry = readdir(files)) != NULL;) {
    char text[1024];
    if (entry->d_name[0] != '.' && read_at(dirfd(files), entry->d_name, text, sizeof text) > 0)
      *found = number_after(text, "scm_fds:") > 0;
  }
  closedir(files);
}

static void look_in_process(int process, void *context) {
  look_in_maps(process, context);
  each_task(process, look_in_sockets, context);
}

/*
 * A file without a name and a descriptor can still use space: a mapped page or an unread message keeps it. Its size is
 * not visible from outside, but its existence is.
 */
bool disk_hides_files(void) {
  bool found = false;
  each_process(look_in_process, &found);
  return found;
}
