#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int report_fd = REPORT_FD;

/* One write of less than PIPE_BUF bytes is atomic. */
void report(const char *reason, int exit_code, int signal, const char *message) {
  char line[1024];
  int length = snprintf(line, sizeof line, "%s %d %d %s", reason, exit_code, signal, message);
  if (length < 0) return;
  if ((size_t)length >= sizeof line) length = sizeof line - 1;
  for (int i = 0; i < length; i++)
    if (line[i] == '\n') line[i] = ' ';
  line[length++] = '\n';
  while (write(report_fd, line, (size_t)length) < 0 && errno == EINTR) continue;
}

void die_because(const char *step, const char *why) {
  char message[900];
  snprintf(message, sizeof message, "%s: %s", step, why);
  report("setup", -1, -1, message);
  _exit(125);
}

void die(const char *step) { die_because(step, strerror(errno)); }

bool write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t length = (ssize_t)strlen(text);
  bool ok = write(fd, text, (size_t)length) == length;
  int saved = errno;
  close(fd);
  errno = saved;
  return ok;
}

uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
