/*
 * Connects a port on the loopback device of the jail with the socket of a proxy outside. Programs know proxies by host
 * and port only, and the jail has no network. The relay passes bytes and decides nothing: the command may also open the
 * socket itself, because the proxy checks each connection. A command that kills the relay loses its network.
 */
#include "jail.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_PAIRS = 64, BUFFER_BYTES = 16384, BACKLOG = 64, RELAY_FILES = 2 * MOST_PAIRS + 8 };

/* Bytes on their way from one end to the other. It is over when the end of file was passed on too. */
struct flow {
  int from, to;
  size_t start, length;
  bool ended, is_over;
  char buffer[BUFFER_BYTES];
};
struct pair {
  int inside, outside; /* inside is -1 if the pair is free */
  struct flow flows[2];
};

static struct pair pairs[MOST_PAIRS];
static struct sockaddr_un proxy;

static void failed(const char *step) {
  (void)step;
  _exit(125);
}

static int listen_on(uint64_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0) die("proxy");
  return fd;
}

static void begin_flow(struct flow *flow, int from, int to) {
  flow->from = from;
  flow->to = to;
  flow->start = flow->length = 0;
  flow->ended = flow->is_over = false;
}

static void close_pair(struct pair *pair) {
  close(pair->inside);
  close(pair->outside);
  pair->inside = -1;
}

/* Only called while a pair is free. */
static void accept_one(int listener) {
  int inside = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (inside < 0) return;
  int outside = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (outside < 0 || connect(outside, (struct sockaddr *)&proxy, sizeof proxy) != 0) {
    if (outside >= 0) close(outside);
    close(inside);
    return;
  }
  struct pair *pair = pairs;
  while (pair->inside >= 0) pair++;
  pair->inside = inside;
  pair->outside = outside;
  begin_flow(&pair->flows[0], inside, outside);
  begin_flow(&pair->flows[1], outside, inside);
}

static bool would_block(void) { return errno == EAGAIN || errno == EINTR; }

/* False if the connection broke. */
static bool move_bytes(struct flow *flow) {
  if (flow->is_over) return true;
  if (flow->length == 0 && !flow->ended) {
    ssize_t got = read(flow->from, flow->buffer, BUFFER_BYTES);
    if (got < 0 && !would_block()) return false;
    if (got == 0) flow->ended = true;
    if (got > 0) {
      flow->start = 0;
      flow->length = (size_t)got;
    }
  }
  if (flow->length > 0) {
    ssize_t sent = send(flow->to, flow->buffer + flow->start, flow->length, MSG_NOSIGNAL);
    if (sent < 0) return would_block();
    flow->start += (size_t)sent;
    flow->length -= (size_t)sent;
  }
  if (flow->ended && flow->length == 0) {
    shutdown(flow->to, SHUT_WR);
    flow->is_over = true;
  }
  return true;
}

/* An end that waits for the other one is not polled: it would report its end of file again and again. */
static struct pollfd polled_for(int fd, const struct flow *reading, const struct flow *writing) {
  short events = 0;
  if (!reading->ended && reading->length == 0) events |= POLLIN;
  if (writing->length > 0) events |= POLLOUT;
  return (struct pollfd){ .fd = events == 0 ? -1 : fd, .events = events };
}

static void serve_pair(struct pair *pair) {
  for (int i = 0; i < 2; i++)
    if (!move_bytes(&pair->flows[i])) return close_pair(pair);
  if (pair->flows[0].is_over && pair->flows[1].is_over) close_pair(pair);
}

static _Noreturn void relay(int listener) {
  for (;;) {
    struct pollfd polled[1 + 2 * MOST_PAIRS];
    struct pair *owners[MOST_PAIRS];
    nfds_t count = 1;
    for (struct pair *pair = pairs; pair < pairs + MOST_PAIRS; pair++) {
      if (pair->inside < 0) continue;
      owners[count / 2] = pair;
      polled[count++] = polled_for(pair->inside, &pair->flows[0], &pair->flows[1]);
      polled[count++] = polled_for(pair->outside, &pair->flows[1], &pair->flows[0]);
    }
    bool has_room = count < 1 + 2 * MOST_PAIRS;
    polled[0] = (struct pollfd){ .fd = has_room ? listener : -1, .events = POLLIN };
    if (poll(polled, count, -1) < 0 && errno != EINTR) _exit(125);
    for (nfds_t i = 1; i < count; i += 2) {
      short broken = (polled[i].revents | polled[i + 1].revents) & (POLLERR | POLLNVAL);
      if (broken) close_pair(owners[i / 2]);
      else if (polled[i].revents | polled[i + 1].revents) serve_pair(owners[i / 2]);
    }
    if (polled[0].revents & POLLIN) accept_one(listener);
  }
}

/* It gives up what the command gives up, so a command that takes it over gains nothing. */
static void confine_relay(void) {
  struct rlimit files = { RELAY_FILES, RELAY_FILES }, none = { 0, 0 };
  if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_CORE, &none) != 0) failed("limits");
  drop_capabilities(failed);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) failed("no_new_privs");
  if (!install_filter((struct filter_options){ .unix_sockets = true })) failed("seccomp");
}

void start_relay(const struct spec *spec) {
  if (strlen(spec->proxy) >= sizeof proxy.sun_path) die_because("proxy", "its path is too long");
  int listener = listen_on(spec->proxy_port);
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid > 0) {
    close(listener);
    return;
  }
  proxy.sun_family = AF_UNIX;
  strcpy(proxy.sun_path, spec->proxy);
  for (int i = 0; i < MOST_PAIRS; i++) pairs[i].inside = -1;
  close(report_fd);
  syscall(SYS_close_range, 0, 2, 0); /* the output of the command ends without it */
  setsid();
  confine_relay();
  relay(listener);
}
