/*
 * Attacks on the jail. The first argument chooses one, and each prints its result. All attacks limit themselves, so a
 * successful one does no harm.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1 << 20)

static void say(const char *what, long result) {
  printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
  fflush(stdout);
}

static void hold_for(int seconds, const char *what) {
  printf("%s: held\n", what);
  fflush(stdout);
  sleep(seconds);
  printf("%s: alive\n", what);
  fflush(stdout);
}

static void hold(const char *what) { hold_for(2, what); }

static void forks(int count) {
  int made = 0;
  for (int i = 0; i < count; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      sleep(2);
      _exit(0);
    }
    if (pid > 0) made++;
  }
  printf("forks: %d\n", made);
}

static void touch(char *memory, int mib) {
  for (long i = 0; i < (long)mib * MIB; i += 4096) memory[i] = 1;
}

static char *map(int mib, int flags) {
  char *memory = mmap(NULL, (size_t)mib * MIB, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return memory;
  say("mmap", -1);
  exit(0);
}

static void memory(int mib) {
  touch(map(mib, MAP_PRIVATE), mib);
  hold("memory");
}

static void many(int processes) {
  for (int i = 0; i < processes; i++) {
    if (fork() == 0) {
      touch(map(24, MAP_PRIVATE), 24);
      sleep(2);
      _exit(0);
    }
  }
  hold("many");
}

static void hidden_shared(int mib) {
  char *memory = map(mib, MAP_SHARED);
  for (int i = 0; i < mib; i++) {
    touch(memory + (long)i * MIB, 1);
    madvise(memory + (long)i * MIB, MIB, MADV_DONTNEED); /* not resident any more, but still there */
  }
  hold("hidden_shared");
}

static void page_tables(int mib) {
  const long step = 2 * MIB; /* one page of the table each */
  char *memory = mmap(NULL, step * mib * 256, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return say("mmap", -1);
  madvise(memory, step * mib * 256, MADV_NOHUGEPAGE);
  volatile char sum = 0;
  for (long i = 0; i < (long)mib * 256; i++) sum += memory[i * step];
  hold("page_tables");
}

static void *grow(void *mib) {
  usleep(100000);
  touch(map((int)(long)mib, MAP_PRIVATE), (int)(long)mib);
  hold("no_leader");
  _exit(0);
}

/* A process whose main thread has ended shows no memory of its own. */
static void no_leader(int mib) {
  pthread_t thread;
  pthread_create(&thread, NULL, grow, (void *)(long)mib);
  pthread_exit(NULL);
}

static void sockets(int pairs) {
  static char block[65536];
  for (int i = 0; i < pairs; i++) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) break;
    while (write(pair[0], block, sizeof block) > 0) continue;
  }
  hold("sockets");
}

static void fill_socket(int fd) {
  static char block[65536];
  int bytes = 64 * MIB;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  for (int idle = 0; idle < 10;) {
    if (send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) idle = 0;
    else usleep(1000 * (unsigned)idle++);
  }
}

/* How much memory goes into a few sockets whose buffers are as large as can be. */
static void buffers(int pairs) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
  socklen_t length = sizeof address;
  int server = socket(AF_INET, SOCK_STREAM, 0);
  bind(server, (struct sockaddr *)&address, length);
  listen(server, pairs);
  getsockname(server, (struct sockaddr *)&address, &length);
  long tcp = 0, local = 0;
  for (int i = 0; i < pairs; i++) {
    int pair[2], client = socket(AF_INET, SOCK_STREAM, 0), unread;
    if (connect(client, (struct sockaddr *)&address, length) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
      return say("socket", -1);
    int accepted = accept(server, NULL, NULL);
    fill_socket(client);
    fill_socket(pair[0]);
    if (ioctl(accepted, FIONREAD, &unread) == 0) tcp += unread;
    if (ioctl(client, TIOCOUTQ, &unread) == 0) tcp += unread;
    if (ioctl(pair[1], FIONREAD, &unread) == 0) local += unread;
  }
  printf("tcp: %ld\nunix: %ld\n", tcp / pairs, local / pairs);
}

/* The kernel counts them for a user of the host, who may have so many and no more. */
static void watches(int thousands) {
  int files[200], made = 0;
  struct epoll_event event = { 0 };
  for (int i = 0; i < 200; i++) files[i] = eventfd(0, 0);
  for (int e = 0; e < thousands * 5; e++) {
    int epoll = epoll_create1(0);
    for (int i = 0; i < 200; i++) made += epoll_ctl(epoll, EPOLL_CTL_ADD, files[i], &event) == 0;
  }
  printf("watches: %d\n", made);
  hold_for(thousands > 50 ? 30 : 2, "watches"); /* counting so many takes a busy machine seconds */
}

static void fill(int fd, int mib) {
  static char block[MIB];
  for (int i = 0; i < mib; i++)
    if (write(fd, block, sizeof block) < 0) return say("write", -1);
  hold("fill");
}

static void unlinked(int mib) {
  int fd = open("gone", O_CREAT | O_RDWR, 0600);
  unlink("gone");
  fill(fd, mib);
}

/* Without a name, and never so large that it would be seen before. */
static int nameless(void) {
  static char block[4 * MIB];
  int fd = open("gone", O_CREAT | O_RDWR, 0600);
  unlink("gone");
  if (fd < 0 || write(fd, block, sizeof block) < 0) say("write", -1);
  return fd;
}

/* Without a descriptor either: one mapped page keeps all of it. */
static void mapped(int mib) {
  for (int i = 0; i < mib; i += 4) {
    int fd = nameless();
    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
  }
  hold("mapped");
}

/* Sent to a socket that nobody reads. */
static void in_flight(int mib) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return say("socketpair", -1);
  for (int i = 0; i < mib; i += 4) {
    int fd = nameless();
    char control[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec byte = { "x", 1 };
    struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd) };
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(pair[0], &message, 0) < 0) return say("send", -1);
    close(fd);
  }
  hold("in_flight");
}

/* In the order in which a walk meets them. */
static void three_directories(char names[3][16]) {
  int found = 0;
  for (int i = 0; i < 3; i++) {
    snprintf(names[i], 16, "moved%d", i);
    mkdir(names[i], 0700);
  }
  DIR *top = opendir(".");
  for (struct dirent *entry; found < 3 && (entry = readdir(top)) != NULL;)
    if (strncmp(entry->d_name, "moved", 5) == 0) snprintf(names[found++], 16, "%.15s", entry->d_name);
  closedir(top);
}

static void write_slowly(int dir, int mib) {
  static char block[MIB];
  for (int i = 0; i < mib; i++) {
    char file[32];
    snprintf(file, sizeof file, "%d", i);
    int fd = openat(dir, file, O_CREAT | O_WRONLY, 0600);
    if (write(fd, block, sizeof block) < 0) say("write", -1);
    close(fd);
    usleep(1000);
  }
}

/* Whoever walks the tree opens the second of three directories: what lies in the third goes to the first then. */
static void moving(int mib) {
  char names[3][16], before[32], behind[32], name[48], events[4096];
  three_directories(names);
  for (int i = 0; i < 2500; i++) {
    snprintf(name, sizeof name, "%s/%d", names[1], i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
  }
  snprintf(before, sizeof before, "%s/all", names[0]);
  snprintf(behind, sizeof behind, "%s/all", names[2]);
  mkdir(behind, 0700);
  int watch = inotify_init1(IN_NONBLOCK);
  int second = inotify_add_watch(watch, names[1], IN_OPEN);
  inotify_add_watch(watch, names[2], IN_CLOSE_NOWRITE);
  int moved = open(behind, O_PATH | O_DIRECTORY); /* wherever it lies later */
  pid_t writer = fork();
  if (writer == 0) {
    write_slowly(moved, mib);
    _exit(0);
  }
  for (time_t end = time(NULL) + 30; time(NULL) < end;) { /* the limit ends it long before */
    if (read(watch, events, sizeof events) <= 0) continue;
    bool opened = ((struct inotify_event *)events)->wd == second;
    rename(opened ? behind : before, opened ? before : behind);
  }
  printf("moving: alive\n");
}

static void entries(int count) {
  char name[32];
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "e%d", i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
  }
  hold("entries");
}

/* So deep that no path reaches the end. */
static void deep(int levels) {
  for (int i = 0; i < levels; i++)
    if (mkdir("d", 0700) != 0 || chdir("d") != 0) return say("deep", -1);
  hold("deep");
}

static void daemonise(int seconds) {
  if (fork() > 0) return;
  setsid();
  if (fork() > 0) _exit(0);
  for (int fd = 0; fd <= 2; fd++) close(fd);
  for (int i = 1; i < NSIG; i++) signal(i, SIG_IGN);
  sleep((unsigned)seconds);
  _exit(0);
}

static int nothing(void *unused) {
  (void)unused;
  return 0;
}

static void namespaces(void) {
  static char stack[65536];
  static const struct { const char *name; int flag; } kinds[] = {
    { "user", CLONE_NEWUSER }, { "mnt", CLONE_NEWNS }, { "net", CLONE_NEWNET }, { "pid", CLONE_NEWPID },
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    char name[32];
    snprintf(name, sizeof name, "clone %s", kinds[i].name);
    say(name, clone(nothing, stack + sizeof stack, kinds[i].flag | SIGCHLD, NULL));
  }
  struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
  long made = syscall(SYS_clone3, &args, sizeof args);
  if (made == 0) _exit(0);
  say("clone3 user", made);
  say("unshare user", unshare(CLONE_NEWUSER));
  say("setns", setns(open("/proc/self/ns/net", O_RDONLY), 0));
}

/* A guard without descriptors sees nothing. */
static void blind(int mib) {
  struct rlimit none = { 0, 0 };
  say("prlimit", prlimit(1, RLIMIT_NOFILE, &none, NULL));
  memory(mib);
}

static void init(void) {
  char byte;
  struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };
  say("kill", kill(1, SIGKILL));
  say("stop", kill(1, SIGSTOP));
  say("ptrace", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
  say("read", process_vm_readv(1, &here, 1, &there, 1, 0));
  say("mem", open("/proc/1/mem", O_RDWR));
  say("environ", open("/proc/1/environ", O_RDONLY));
  say("root", open("/proc/1/root/etc", O_RDONLY));
  say("cwd", open("/proc/1/cwd", O_RDONLY));
  say("fd", open("/proc/1/fd", O_RDONLY));
  say("priority", setpriority(PRIO_PROCESS, 1, 19));
  sleep(60); /* it must still watch us */
}

static void calls(void) {
  say("mount", mount("tmpfs", "/tmp", "tmpfs", 0, NULL));
  say("umount", umount2("/usr", MNT_DETACH));
  say("chroot", chroot("/tmp"));
  say("mknod", mknod("device", S_IFCHR | 0600, makedev(1, 1)));
  say("memfd_create", syscall(SYS_memfd_create, "x", 0));
  say("memfd_secret", syscall(447, 0));
  say("shmget", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
  say("bpf", syscall(SYS_bpf, 0, NULL, 0));
  say("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
  say("io_uring_setup", syscall(SYS_io_uring_setup, 8, NULL));
  unsigned long contexts = 0;
  say("io_setup", syscall(SYS_io_setup, 1, &contexts));
  unsigned long range[2] = { 0, 0 }, pages[5];
  say("cachestat", syscall(451, open("file", O_CREAT | O_RDWR, 0600), range, pages, 0));
  say("userfaultfd", syscall(SYS_userfaultfd, 0));
  say("keyctl", syscall(SYS_keyctl, 0, -3, 0));
  say("ptrace", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  say("packet", socket(AF_PACKET, SOCK_RAW, 0));
  say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  say("tiocsti", ioctl(0, TIOCSTI, "x"));
  say("tiocsti high", syscall(SYS_ioctl, 0, 0x100000000UL | TIOCSTI, "x"));
  say("subvolume", ioctl(open(".", O_RDONLY), 0x5000940E, "x"));
  int pipes[2], file = open("file", O_CREAT | O_RDWR, 0600);
  say("splice", pipe(pipes) == 0 && write(file, "x", 1) == 1 ? splice(file, &(off_t){ 0 }, pipes[1], NULL, 1, 0) : -1);
  say("sendfile", sendfile(pipes[1], file, &(off_t){ 0 }, 1));
  say("setuid", setuid(0));
  say("nice", setpriority(PRIO_PROCESS, 0, -10));
  struct rlimit more = { RLIM_INFINITY, RLIM_INFINITY };
  say("rlimit", setrlimit(RLIMIT_NPROC, &more));
  say("oom", open("/proc/self/oom_score_adj", O_WRONLY));
  say("sysrq", open("/proc/sysrq-trigger", O_WRONLY));
  say("core_pattern", open("/proc/sys/kernel/core_pattern", O_WRONLY));
  say("namespaces", open("/proc/sys/user/max_user_namespaces", O_WRONLY));
  say("settime", syscall(SYS_clock_settime, 0, NULL));
  say("socket", socket(AF_INET, SOCK_STREAM, 0));
}

static void connect_to(int port) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  say("connect", connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
}

static void connect_abstract(const char *name) {
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return say("abstract", -1);
  say("abstract", connect(fd, (struct sockaddr *)&address, length));
}

static void read_paths(int count, char **paths) {
  for (int i = 0; i < count; i++) say(paths[i], open(paths[i], O_RDONLY));
}

static void write_paths(int count, char **paths) {
  for (int i = 0; i < count; i++) say(paths[i], open(paths[i], O_CREAT | O_WRONLY, 0600));
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(int); } table[] = {
    { "forks", forks }, { "memory", memory }, { "many", many }, { "hidden_shared", hidden_shared },
    { "page_tables", page_tables }, { "no_leader", no_leader }, { "sockets", sockets }, { "unlinked", unlinked },
    { "mapped", mapped }, { "entries", entries }, { "deep", deep }, { "daemonise", daemonise },
    { "connect", connect_to }, { "blind", blind }, { "in_flight", in_flight },
    { "buffers", buffers }, { "moving", moving }, { "watches", watches },
  };
  if (argc < 2) return 2;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(argv[1], table[i].name) == 0 && argc > 2) table[i].run(atoi(argv[2]));
  if (strcmp(argv[1], "namespaces") == 0) namespaces();
  if (strcmp(argv[1], "init") == 0) init();
  if (strcmp(argv[1], "calls") == 0) calls();
  if (strcmp(argv[1], "abstract") == 0 && argc > 2) connect_abstract(argv[2]);
  if (strcmp(argv[1], "read") == 0) read_paths(argc - 2, argv + 2);
  if (strcmp(argv[1], "write") == 0) write_paths(argc - 2, argv + 2);
  return 0;
}
