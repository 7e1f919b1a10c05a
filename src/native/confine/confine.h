/*
 * verk-confine drops all rights that a worker does not need, then becomes the worker.
 *
 *   server -> verk-confine = worker: one process id, before and after the exec
 *
 * Landlock applies to a thread and the threads it starts, and a runtime starts threads before its first line of code. So
 * this program restricts itself before the runtime exists. The restrictions cannot be undone. Options are arguments:
 * they name files, never secrets, and the exec replaces them.
 */
#ifndef VERK_CONFINE_H
#define VERK_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/* Rights of the process for a path and everything below it. */
enum access { READS, RUNS, WRITES, UPDATES, DRIVES };

struct rule {
  enum access access;
  const char *path;
};

enum { MAX_RULES = 512, FAILED = 126 };

struct options {
  bool landlock, seccomp, namespaces; /* no_new_privs always */
  bool network; /* of the host */
  bool listens; /* with the network of the host: on a unix socket too */
  int nice; /* more than 0: others have priority */
  bool owner; /* may give files to other users; only if root started it */
  struct rule rules[MAX_RULES];
  size_t rule_count;
  char **before; /* a program that runs first, unconfined, and must exit with 0; NULL for none */
  char **program;
};

/* rules.c: 0 or an errno; `which` then names what failed */
int restrict_files(const struct options *options, const char **which);

/* seccomp.c: `self` is the only process that may receive signals */
bool install_filter(const struct options *options, unsigned self);

/* namespace.c */
bool leave_network(void);
bool drop_capabilities(bool owner);

#endif
