/*
 * Sealed blocks of prompts, in memory and in files. A block has a head of 64 bytes, then its content:
 *
 *   the format (4), zeros (12), a nonce (16), the tag of AEGIS-128X2 (32)
 *
 * The tag covers the first 16 bytes, the name and the content. A piece of a file stays in the cache of a core from the
 * file to its place in memory, or back, and no other copy is made.
 */
#include "blocks.h"

#include <aes.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define VECTOR aes_block
#define ROUND aes_plain_round
#define NAMED(of) plain_##of
#define TARGET
#include "aegis.h"
#undef ROUND
#undef NAMED
#undef TARGET
#define ROUND aes_fast_round
#define NAMED(of) fast_##of
#define TARGET AES_TARGET
#include "aegis.h"
#ifdef AES_WIDE_TARGET
#undef VECTOR
#undef ROUND
#undef NAMED
#undef TARGET
#define VECTOR aes_wide
#define ROUND aes_wide_round
#define NAMED(of) wide_##of
#define TARGET AES_WIDE_TARGET
#include "aegis.h"
#endif

enum { FORMAT_BYTES = 16, NONCE_AT = 16, TAG_AT = 32, PIECE = 64 * 1024, ABOUT = 128 };

typedef struct {
  void (*begin)(aegis *, const uint8_t *key, const uint8_t *nonce, const uint8_t *about, size_t);
  void (*turn)(aegis *, const uint8_t *from, uint8_t *to, size_t, bool is_sealing);
  void (*end)(aegis *, uint64_t about_bytes, uint64_t bytes, uint8_t *tag);
} cipher;

enum { CIPHERS = 3 };
static cipher ciphers[CIPHERS]; /* the first is the fastest that this processor has */
static int known, first;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* True if it does what the portable one does: some emulators of processors do not. */
static bool is_right(const cipher *of) {
  enum { LENGTH = 200 };
  uint8_t text[2][LENGTH] = { { 0 } }, tags[2][AEGIS_TAG], about[AEGIS_STEP] = { 1 };
  const cipher all[] = { *of, { plain_begin, plain_turn, plain_end } };
  for (int i = 0; i < 2; i++) {
    aegis state;
    all[i].begin(&state, about, about + 16, about, sizeof about);
    all[i].turn(&state, text[i], text[i], LENGTH, true);
    all[i].end(&state, sizeof about, LENGTH, tags[i]);
  }
  return memcmp(text[0], text[1], LENGTH) == 0 && memcmp(tags[0], tags[1], AEGIS_TAG) == 0;
}

static void add(bool has, cipher each) {
  if (has && is_right(&each)) ciphers[known++] = each;
}

static void prepare(void) {
  aes_prepare();
#ifdef AES_WIDE_TARGET
  add(has_wide_aes(), (cipher){ wide_begin, wide_turn, wide_end });
#endif
  add(has_aes(), (cipher){ fast_begin, fast_turn, fast_end });
  add(true, (cipher){ plain_begin, plain_turn, plain_end });
}

/* Tests compare the ciphers of this processor: 0 is the fastest. Returns their number. */
int verk_use_cipher(int number) {
  pthread_once(&once, prepare);
  if (number >= 0 && number < known) first = number;
  return known;
}

typedef struct { aegis state; const cipher *by; uint64_t bytes; } seal;

/* `about` holds `used` bytes, and zeros up to a multiple of 64. */
static seal begin(const uint8_t *key, const uint8_t *nonce, const uint8_t *about, size_t used) {
  pthread_once(&once, prepare);
  seal of = { .by = &ciphers[first] };
  of.by->begin(&of.state, key, nonce, about, (used + AEGIS_STEP - 1) / AEGIS_STEP * AEGIS_STEP);
  return of;
}

static void turn(seal *of, const uint8_t *from, uint8_t *to, size_t bytes, bool is_sealing) {
  of->bytes += bytes;
  of->by->turn(&of->state, from, to, bytes, is_sealing);
}

static void end(seal *of, size_t used, uint8_t tag[AEGIS_TAG]) { of->by->end(&of->state, used, of->bytes, tag); }

static bool is_equal(const uint8_t *a, const uint8_t *b, size_t bytes) {
  uint8_t other = 0;
  for (size_t i = 0; i < bytes; i++) other |= a[i] ^ b[i];
  return other == 0;
}

/* AEGIS-128X2 itself: the tests compare it with the vectors of its draft. `about` has at most 128 bytes. */
void verk_aegis(const uint8_t *key, const uint8_t *nonce, const uint8_t *about, size_t about_bytes, const uint8_t *from,
                size_t bytes, uint8_t *to, uint8_t *tag, bool is_sealing) {
  uint8_t padded[ABOUT] = { 0 };
  memcpy(padded, about, about_bytes < ABOUT ? about_bytes : ABOUT);
  seal of = begin(key, nonce, padded, about_bytes);
  turn(&of, from, to, bytes, is_sealing);
  end(&of, about_bytes, tag);
}

static seal begin_block(const block_name *of, const uint8_t *head) {
  uint8_t about[ABOUT] = { 0 };
  memcpy(about, head, FORMAT_BYTES);
  memcpy(about + FORMAT_BYTES, of->name, NAME_BYTES);
  return begin(of->key, head + NONCE_AT, about, FORMAT_BYTES + NAME_BYTES);
}

static bool is_whole(seal *of, const uint8_t *head) {
  uint8_t tag[AEGIS_TAG];
  end(of, FORMAT_BYTES + NAME_BYTES, tag);
  return is_equal(tag, head + TAG_AT, AEGIS_TAG);
}

static void write_head(uint8_t *head, const uint8_t *format, const uint8_t *nonce) {
  memset(head, 0, HEAD_BYTES);
  memcpy(head, format, 4);
  memcpy(head + NONCE_AT, nonce, TAG_AT - NONCE_AT);
}

/* `sealed` has HEAD_BYTES more than `plain`. */
void verk_seal_block(const uint8_t *key, const char *name, const uint8_t *format, const uint8_t *nonce,
                     const uint8_t *plain, uint64_t bytes, uint8_t *sealed) {
  block_name of = { key, name, format };
  write_head(sealed, format, nonce);
  seal sealing = begin_block(&of, sealed);
  turn(&sealing, plain, sealed + HEAD_BYTES, bytes, true);
  end(&sealing, FORMAT_BYTES + NAME_BYTES, sealed + TAG_AT);
}

/* Returns 0, or BAD_BLOCK: then `plain` has nothing to use. `bytes`: of `sealed`. */
int verk_open_block(const uint8_t *key, const char *name, const uint8_t *format, const uint8_t *sealed, uint64_t bytes,
                    uint8_t *plain) {
  if (bytes < HEAD_BYTES || !is_equal(sealed, format, 4)) return BAD_BLOCK;
  block_name of = { key, name, format };
  seal opening = begin_block(&of, sealed);
  turn(&opening, sealed + HEAD_BYTES, plain, bytes - HEAD_BYTES, false);
  return is_whole(&opening, sealed) ? 0 : BAD_BLOCK;
}

static int read_all(int fd, uint8_t *into, size_t bytes, off_t from) {
  for (size_t done = 0; done < bytes;) {
    ssize_t count = pread(fd, into + done, bytes - done, from + (off_t)done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return BAD_BLOCK; /* it has been cut off meanwhile */
    done += (size_t)count;
  }
  return 0;
}

static int write_all(int fd, const uint8_t *from, size_t bytes, off_t to) {
  for (size_t done = 0; done < bytes;) {
    ssize_t count = pwrite(fd, from + done, bytes - done, to + (off_t)done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += (size_t)count;
  }
  return 0;
}

static int read_open_file(const block_name *of, int fd, uint8_t *into, uint64_t most, uint64_t *bytes) {
  struct stat about;
  if (fstat(fd, &about) != 0) return errno;
  if (about.st_size < HEAD_BYTES || (uint64_t)about.st_size - HEAD_BYTES > most) return BAD_BLOCK;
  *bytes = (uint64_t)about.st_size - HEAD_BYTES;
  uint8_t head[HEAD_BYTES];
  int code = read_all(fd, head, HEAD_BYTES, 0);
  if (code != 0) return code;
  if (!is_equal(head, of->format, 4)) return BAD_BLOCK;
  seal opening = begin_block(of, head);
  _Alignas(64) uint8_t piece[PIECE];
  for (uint64_t done = 0; done < *bytes;) {
    size_t next = *bytes - done < PIECE ? *bytes - done : PIECE;
    if ((code = read_all(fd, piece, next, HEAD_BYTES + (off_t)done)) != 0) return code;
    turn(&opening, piece, into + done, next, false);
    done += next;
  }
  if (!is_whole(&opening, head)) return BAD_BLOCK;
  futimens(fd, NULL); /* the time of the file says when it was used; without it the block counts as unused for longer */
  return 0;
}

int read_block(const block_name *of, const char *path, uint8_t *into, uint64_t most, uint64_t *bytes) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int code = read_open_file(of, fd, into, most, bytes);
  close(fd);
  return code;
}

static int write_open_file(const block_name *of, int fd, const uint8_t *nonce, const uint8_t *plain, uint64_t bytes) {
  uint8_t head[HEAD_BYTES];
  write_head(head, of->format, nonce);
  seal sealing = begin_block(of, head);
  _Alignas(64) uint8_t piece[PIECE];
  for (uint64_t done = 0; done < bytes;) {
    size_t next = bytes - done < PIECE ? bytes - done : PIECE;
    turn(&sealing, plain + done, piece, next, true);
    int code = write_all(fd, piece, next, HEAD_BYTES + (off_t)done);
    if (code != 0) return code;
    done += next;
  }
  end(&sealing, FORMAT_BYTES + NAME_BYTES, head + TAG_AT);
  return write_all(fd, head, HEAD_BYTES, 0);
}

/* The file is not flushed: a block that a power failure damages does not open. */
int write_block(const block_name *of, const char *temp, const char *path, const uint8_t *nonce, const uint8_t *plain,
                uint64_t bytes) {
  int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int code = write_open_file(of, fd, nonce, plain, bytes);
  if (close(fd) != 0 && code == 0) code = errno;
  if (code == 0 && rename(temp, path) != 0) code = errno;
  if (code != 0) unlink(temp);
  return code;
}

/* Returns the bytes of the content, or a code below 0: BAD_BLOCK, or minus an errno. */
int64_t verk_read_block(const uint8_t *key, const char *name, const uint8_t *format, const char *path, uint8_t *into,
                        uint64_t most) {
  uint64_t bytes = 0;
  block_name of = { key, name, format };
  int code = read_block(&of, path, into, most, &bytes);
  return code == 0 ? (int64_t)bytes : code == BAD_BLOCK ? BAD_BLOCK : -code;
}

/* Returns 0 or an errno. */
int verk_write_block(const uint8_t *key, const char *name, const uint8_t *format, const char *temp, const char *path,
                     const uint8_t *nonce, const uint8_t *plain, uint64_t bytes) {
  block_name of = { key, name, format };
  return write_block(&of, temp, path, nonce, plain, bytes);
}
