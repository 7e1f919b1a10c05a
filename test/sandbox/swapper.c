/* Swaps two names of a directory, again and again, until it is told to end; then says how often it did. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static void end(int signal) { over = signal; }

int main(int count, char **args) {
  unsigned long swaps = 0;
  signal(SIGTERM, end);
  if (count != 4 || chdir(args[1]) != 0) return 2;
  puts("ready");
  fflush(stdout);
  while (!over)
    if (syscall(SYS_renameat2, AT_FDCWD, args[2], AT_FDCWD, args[3], 2 /* RENAME_EXCHANGE */) == 0) swaps++;
  printf("%lu\n", swaps);
  return 0;
}
