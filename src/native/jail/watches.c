/*
 * Watches of epoll. The kernel counts them per user of the host. If the server is an ordinary user, that user is the
 * server's own: at the limit, the server could not accept connections any more.
 */
#include "jail.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Descriptors that were sent but not received may be epoll descriptors, so their number is limited. */
enum { MOST_WATCHES = 50000, MOST_IN_FLIGHT = 32 };

static const char epoll[] = "anon_inode:[eventpoll]", socket_prefix[] = "socket:[";

/* One line of fdinfo for each. */
static uint64_t watches_of(int infos, const char *name) {
  FILE *info = open_text(infos, name);
  if (info == NULL) return 0;
  uint64_t count = 0;
  char line[256];
  while (count <= MOST_WATCHES && fgets(line, sizeof line, info) != NULL) count += strncmp(line, "tfd:", 4) == 0;
  fclose(info);
  return count;
}

static uint64_t in_flight(int infos, const char *name) {
  char text[1024];
  return read_at(infos, name, text, sizeof text) > 0 ? number_after(text, "scm_fds:") : 0;
}

static void add_watches(int task, void *context) {
  uint64_t *sum = context;
  DIR *files = *sum > MOST_WATCHES ? NULL : open_dir(task, "fd");
  if (files == NULL) return;
  int infos = openat(task, "fdinfo", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (infos < 0) must_see();
  for (struct dirent *entry; *sum <= MOST_WATCHES && (entry = readdir(files)) != NULL;) {
    char target[64];
    ssize_t length = readlinkat(dirfd(files), entry->d_name, target, sizeof target);
    if (length == sizeof epoll - 1 && memcmp(target, epoll, sizeof epoll - 1) == 0)
      *sum += watches_of(infos, entry->d_name);
    else if (length > (ssize_t)sizeof socket_prefix && memcmp(target, socket_prefix, sizeof socket_prefix - 1) == 0)
      *sum += in_flight(infos, entry->d_name) * (MOST_WATCHES / MOST_IN_FLIGHT);
  }
  if (infos >= 0) close(infos);
  closedir(files);
}

static void add_process_watches(int process, void *context) { each_task(process, add_watches, context); }

bool watches_too_much(void) {
  uint64_t sum = 0;
  each_process(add_process_watches, &sum);
  return sum > MOST_WATCHES;
}
