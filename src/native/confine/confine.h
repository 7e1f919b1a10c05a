/*
 * verk-confine: gives up what a worker does not need, then becomes the worker.
 *
 *   server -> verk-confine = worker: one process id, before and after the exec
 *
 * Landlock holds for a thread and for those that it starts, and a runtime starts threads before its first line of code:
 * so a program that exists before the runtime is the one that restricts itself. Nothing can be taken back later.
 * Options are arguments and name files, never secrets: the exec replaces them.
 */
#ifndef VERK_CONFINE_H
#define VERK_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/* What the process may do with a path and all that lies beneath it. */
enum access { READS, RUNS, WRITES, UPDATES, DRIVES };

struct rule {
  enum access access;
  const char *path;
};

enum { MAX_RULES = 512, FAILED = 126 };

struct options {
  bool landlock, seccomp, namespaces; /* no_new_privs always */
  bool network; /* of the host */
  bool owner; /* gives files to other users: started by root alone */
  struct rule rules[MAX_RULES];
  size_t rule_count;
  char **before; /* a program that runs first, outside, and must end with 0; NULL: none */
  char **program;
};

/* rules.c: 0 or an errno; `which` then names what failed */
int restrict_files(const struct options *options, const char **which);

/* seccomp.c: `self` is the one process that may be sent signals */
bool install_filter(bool network, unsigned self);

/* namespace.c */
bool leave_network(void);
bool drop_capabilities(bool owner);

#endif
