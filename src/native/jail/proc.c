#include "jail.h"

#include <ctype.h>
#include <dirent.h>
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

static void each_number(DIR *dir, task_visitor visit, void *context) {
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0]) || (dir == proc && strcmp(entry->d_name, "1") == 0)) continue;
    int fd = openat(dirfd(dir), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) continue; /* it has ended */
    visit(fd, context);
    close(fd);
  }
}

void each_process(task_visitor visit, void *context) {
  if (proc == NULL) return;
  rewinddir(proc);
  each_number(proc, visit, context);
}

void each_task(int process_dir, task_visitor visit, void *context) {
  int fd = openat(process_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  DIR *tasks = fdopendir(fd);
  if (tasks == NULL) {
    close(fd);
    return;
  }
  each_number(tasks, visit, context);
  closedir(tasks);
}

/* With a NUL behind it; -1 when it cannot be read. */
ssize_t read_at(int dir, const char *name, char *buffer, size_t size) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
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

/* The number behind `key` at the start of a line, in bytes where the kernel says kB; 0 when it is not there. */
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
