/*
 * The spec on fd 3 is "VJ1\n" and records: one byte of tag, four bytes of length (little endian), and the content. The
 * last record is '.'. A number has eight bytes. A mount has its kind, its number and two strings with their lengths.
 * C strings must not contain a NUL. The helper ends on any error, because the writer is our own server.
 */
#include "jail.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SPEC_BYTES = 4 << 20, RECORD_HEAD = 5 };

struct cursor {
  const unsigned char *at;
  size_t left;
};

static void malformed(const char *why) { die_because("spec", why); }

static const unsigned char *take(struct cursor *cursor, size_t bytes) {
  if (bytes > cursor->left) malformed("it is incomplete");
  const unsigned char *taken = cursor->at;
  cursor->at += bytes;
  cursor->left -= bytes;
  return taken;
}

static uint32_t take_length(struct cursor *cursor) {
  uint32_t raw;
  memcpy(&raw, take(cursor, sizeof raw), sizeof raw);
  return le32toh(raw);
}

static uint64_t take_number(struct cursor *cursor) {
  uint64_t raw;
  memcpy(&raw, take(cursor, sizeof raw), sizeof raw);
  return le64toh(raw);
}

/* Copies the bytes and appends a NUL. */
static char *take_bytes(struct cursor *cursor, size_t length) {
  const unsigned char *from = take(cursor, length);
  char *copy = malloc(length + 1);
  if (copy == NULL) die("memory for the spec");
  memcpy(copy, from, length);
  copy[length] = '\0';
  return copy;
}

static char *take_string(struct cursor *cursor, size_t length) {
  char *text = take_bytes(cursor, length);
  if (strlen(text) != length) malformed("a string contains a NUL");
  return text;
}

static char *take_path(struct cursor *cursor, size_t length) {
  char *path = take_string(cursor, length);
  if (path[0] != '/') malformed("a path is not absolute");
  return path;
}

static void take_mount(struct cursor *cursor, struct spec *spec) {
  if (spec->mount_count == MAX_MOUNTS) malformed("too many mounts");
  struct mount_spec *m = &spec->mounts[spec->mount_count++];
  m->kind = *take(cursor, 1);
  m->bytes = take_number(cursor);
  m->tree = -1;
  m->from_bytes = take_length(cursor);
  bool bound = m->kind == READ_ONLY || m->kind == WRITABLE || m->kind == DEVICE;
  if (bound) m->from = take_path(cursor, m->from_bytes);
  else if (m->kind == TEXT_FILE) m->from = take_bytes(cursor, m->from_bytes);
  else m->from = take_string(cursor, m->from_bytes);
  m->to = take_path(cursor, take_length(cursor));
  if (strchr("rwtlfgdp", (int)m->kind) == NULL) malformed("an unknown kind of mount");
}

static void take_strings(char **list, int *count, char *text) {
  if (*count == MAX_STRINGS) malformed("too many arguments or variables");
  list[(*count)++] = text;
  list[*count] = NULL;
}

static uint64_t *number_of(struct spec *spec, char tag) {
  switch (tag) {
    case 'u': return &spec->uid;
    case 'g': return &spec->gid;
    case 'P': return &spec->processes;
    case 'M': return &spec->memory_bytes;
    case 'O': return &spec->open_files;
    case 'F': return &spec->file_bytes;
    case 'C': return &spec->cpu_seconds;
    case 'W': return &spec->wall_ms;
    case 'B': return &spec->disk_bytes;
    case 'E': return &spec->disk_entries;
    case 'N': return &spec->cpus;
    case 'K': return &spec->first_cpu;
    case 'X': return &spec->proxy_port;
    default: return NULL;
  }
}

static bool *flag_of(struct spec *spec, char tag) {
  switch (tag) {
    case 'n': return &spec->host_network;
    case 's': return &spec->filtered;
    case '?': return &spec->probe;
    default: return NULL;
  }
}

static void take_record(struct spec *spec, char tag, struct cursor body) {
  if (tag == 'a') take_strings(spec->argv, &spec->argc, take_string(&body, body.left));
  else if (tag == 'e') take_strings(spec->env, &spec->envc, take_string(&body, body.left));
  else if (tag == 'c') spec->cwd = take_path(&body, body.left);
  else if (tag == 'D') spec->disk_at = take_path(&body, body.left);
  else if (tag == 'G') spec->share = take_path(&body, body.left);
  else if (tag == 'R') spec->proxy = take_path(&body, body.left);
  else if (tag == 'm') take_mount(&body, spec);
  else if (flag_of(spec, tag) != NULL) *flag_of(spec, tag) = *take(&body, 1) != 0;
  else if (number_of(spec, tag) != NULL) *number_of(spec, tag) = take_number(&body);
  else malformed("an unknown record");
  if (body.left != 0) malformed("a record is too long");
}

static struct cursor read_all(int fd) {
  unsigned char *buffer = malloc(MAX_SPEC_BYTES);
  if (buffer == NULL) die("memory for the spec");
  size_t length = 0;
  for (;;) {
    ssize_t got = read(fd, buffer + length, MAX_SPEC_BYTES - length);
    if (got < 0) die("spec");
    if (got == 0) return (struct cursor){ buffer, length };
    length += (size_t)got;
    if (length == MAX_SPEC_BYTES) malformed("it is too long");
  }
}

void read_spec(int fd, struct spec *spec) {
  struct cursor all = read_all(fd);
  if (memcmp(take(&all, 4), "VJ1\n", 4) != 0) malformed("it has another version");
  for (;;) {
    char tag = (char)*take(&all, 1);
    size_t length = take_length(&all);
    struct cursor body = { take(&all, length), length };
    if (tag == '.') break;
    take_record(spec, tag, body);
  }
  if (all.left != 0) malformed("there is data after its end");
  if (spec->argc == 0 && !spec->probe) malformed("no command");
  if (spec->cwd == NULL) malformed("no working directory");
}
