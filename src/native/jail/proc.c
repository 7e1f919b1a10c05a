#include "jail.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DIR *proc;

bool open_proc(void) {
  proc = opendir("/proc");
  return proc != NULL;
}

bool has_proc(void) { return proc != NULL; }

/* A process of the same user may lower our limits (prlimit). If the guard cannot check, it must end the jail. */
void must_see(void) {
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) guard_is_blind();
}

static void each_number(DIR *dir, task_visitor visit, void *context) {
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0]) || (dir == proc && strcmp(entry->d_name, "1") == 0)) continue;
    int fd = openat(dirfd(dir), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
      must_see();
      continue; /* it has ended */
    }
    visit(fd, context);
    close(fd);
  }
}

/* Returns NULL if it does not exist any more. */
DIR *open_dir(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *opened = fd < 0 ? NULL : fdopendir(fd);
  if (opened != NULL) return opened;
  must_see();
  if (fd >= 0) close(fd);
  return NULL;
}

/* Returns NULL if it does not exist any more. */
FILE *open_text(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  FILE *opened = fd < 0 ? NULL : fdopen(fd, "r");
  if (opened != NULL) return opened;
  must_see();
  if (fd >= 0) close(fd);
  return NULL;
}

void each_process(task_visitor visit, void *context) {
  if (proc == NULL) return;
  rewinddir(proc);
  each_number(proc, visit, context);
}

void each_task(int process_dir, task_visitor visit, void *context) {
  DIR *tasks = open_dir(process_dir, "task");
  if (tasks == NULL) return;
  each_number(tasks, visit, context);
  closedir(tasks);
}

/* Appends a NUL. Returns -1 if the file cannot be read. */
ssize_t read_at(int dir, const char *name, char *buffer, size_t size) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    must_see();
    return -1;
  }
  ssize_t length = 0;
  while ((size_t)length < size - 1) {
    ssize_t got = read(fd, buffer + length, size - 1 - (size_t)length);
    if (got <= 0) break;
    length += got;
  }
  close(fd);
  buffer[length] = '\0';
  return length;
}

/* The number after `key` at the start of a line; kB are converted to bytes. Returns 0 if there is no such line. */
uint64_t number_after(const char *text, const char *key) {
  size_t length = strlen(key);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, length) != 0) continue;
    char *end;
    uint64_t value = strtoull(line + length, &end, 10);
    return strncmp(end, " kB", 3) == 0 ? value * 1024 : value;
  }
  return 0;
}

enum { SLOTS = 8192 };
static uint64_t inodes[SLOTS]; /* 0 = free */
static int inode_count;

void forget_inodes(void) {
  memset(inodes, 0, sizeof inodes);
  inode_count = 0;
}

/* New since forget_inodes. With very many inodes, one may be counted twice, but none is missed. */
bool is_new_inode(uint64_t inode) {
  if (inode_count > SLOTS * 3 / 4) return true;
  size_t slot = (size_t)(inode % SLOTS);
  while (inodes[slot] != 0 && inodes[slot] != inode) slot = (slot + 1) % SLOTS;
  if (inodes[slot] == inode) return false;
  inodes[slot] = inode;
  inode_count++;
  return true;
}
