/*
 * verk-jail runs one command in its own namespaces, for an ordinary user. Needs Linux 5.12 or newer.
 *
 *   server -> helper -> pid 1 (ours) -> the command and all it starts
 *                                    -> the relay to the proxy (ours), if there is one
 *
 * fd 3 is the spec (see spec.c), because other processes can read argv and the environment. fd 4 is the report, one
 * line. 0, 1 and 2 belong to the command. Each process of the chain dies with its parent, and the kernel kills a pid
 * namespace when its pid 1 dies. So no death leaves a process behind.
 *
 * Not covered: bugs of the kernel in allowed system calls; the load of the disk, and of the processor without a share; kernel memory for pipes,
 * locks and similar objects beyond their limits; files in /usr of the host, which a session can read.
 */
#ifndef VERK_JAIL_H
#define VERK_JAIL_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { SPEC_FD = 3, REPORT_FD = 4 };

enum mount_kind { READ_ONLY = 'r', WRITABLE = 'w', TMPFS = 't', SYMLINK = 'l', TEXT_FILE = 'f', DEVICE = 'g', DEVICES = 'd', PROC = 'p' };

struct mount_spec {
  enum mount_kind kind;
  char *from; /* path on the host; target of a symlink; text of a file */
  size_t from_bytes;
  char *to;
  uint64_t bytes; /* of a tmpfs */
  int tree; /* detached mount of `from`, or -1 */
  bool is_dir;
};

enum { MAX_MOUNTS = 256, MAX_STRINGS = 8192 };

struct spec {
  char *argv[MAX_STRINGS + 1];
  char *env[MAX_STRINGS + 1];
  int argc, envc;
  char *cwd;
  struct mount_spec mounts[MAX_MOUNTS];
  int mount_count;
  uint64_t uid, gid; /* used if root started the helper */
  uint64_t processes, memory_bytes, open_files, file_bytes, cpu_seconds, wall_ms;
  uint64_t cpus, first_cpu; /* 0 cpus means all; the first one is counted modulo those of the helper */
  char *proxy; /* socket of a proxy, in the jail, or NULL */
  uint64_t proxy_port; /* on the loopback device of the jail */
  char *share; /* cgroup.procs of the control group of the command, or NULL */
  int share_fd;
  char *disk_at;
  uint64_t disk_bytes, disk_entries;
  uint64_t socket_bytes; /* most memory of one socket; read from the host, not from the spec */
  bool host_network, filtered, probe;
};

/* spec.c */
void read_spec(int fd, struct spec *spec);

/* mounts.c */
void open_trees(struct spec *spec, bool may_fail);
void build_root(struct spec *spec);
void seal_root(void);

/* init.c: never returns */
void run_init(struct spec *spec) __attribute__((noreturn));
void guard_is_blind(void) __attribute__((noreturn));

/* command.c: never returns; reports a failed step on `failure_fd`, which closes when the command runs */
void run_command(struct spec *spec, int failure_fd) __attribute__((noreturn));

void drop_capabilities(void (*failed)(const char *step));

/* relay.c */
void start_relay(const struct spec *spec);

/* seccomp.c */
struct filter_options {
  bool unix_sockets;
  bool pinned; /* the command must not choose other processors */
};
bool install_filter(struct filter_options options);

/* landlock.c: false if the kernel is too old */
bool scope_abstract_sockets(void);

/* memory.c */
uint64_t memory_in_use(uint64_t limit);
uint64_t sockets_in_use(void);
uint64_t socket_bytes(void);
void count_tmpfs(const char *at);

/* watches.c */
bool watches_too_much(void);

/* disk.c */
struct disk_use {
  uint64_t bytes, entries;
};
bool disk_open(const char *at);
enum disk_result { MEASURED, TOO_DEEP, GIVEN_UP };
enum disk_result disk_measure(struct disk_use *use, const struct disk_use *stop_above, bool (*meanwhile)(void));
bool disk_hides_files(void);
uint64_t disk_free_bytes(void);

/* proc.c: reads /proc of this pid namespace; pid 1 is not among the processes */
void must_see(void);
DIR *open_dir(int dir, const char *name);
FILE *open_text(int dir, const char *name);
bool open_proc(void);
bool has_proc(void);
typedef void (*task_visitor)(int task_dir, void *context);
void each_process(task_visitor visit, void *context);
void each_task(int process_dir, task_visitor visit, void *context);
ssize_t read_at(int dir, const char *name, char *buffer, size_t size);
uint64_t number_after(const char *text, const char *key);
void forget_inodes(void);
bool is_new_inode(uint64_t inode);

/* report.c: the helper and pid 1 report to the server through `report_fd` */
extern int report_fd;
void report(const char *reason, int exit_code, int signal, const char *message);
/* reports `setup` with "step: why" and exits; if pid 1 exits, everything in the jail is killed */
void die(const char *step) __attribute__((noreturn));
void die_because(const char *step, const char *why) __attribute__((noreturn));

/* Writes one line, which is fixed at compile time or built by us. */
bool write_file(const char *path, const char *text);
uint64_t now_ms(void);

#endif
