/*
 * Calls of libllama and libggml that JavaScript cannot make: bun:ffi cannot pass or return a struct by value, and the
 * library may call its logger on any thread. The first argument of each call is the address of the library's function.
 *
 * The headers of the library are not needed. A struct is an array of words; src/native/llama/params.ts checks its size
 * at the start. A struct of integers over 16 bytes is passed like the library's own struct on every architecture. A
 * returned struct goes through memory of the caller. It may be smaller than `returned` and `graph`, but never larger.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef struct { uint64_t words[64]; } returned;
typedef struct { uint64_t words[32]; } graph;
typedef struct { uint64_t words[10]; } model_params;
typedef struct { uint64_t words[20]; } context_params;
typedef struct { size_t bytes; void *buffer; bool no_alloc; } init_params;
typedef struct {
  int32_t count;
  int32_t *tokens;
  float *embeddings;
  int32_t *positions, *sequence_counts, **sequences;
  int8_t *wants_output;
} batch;

/* llama_model_default_params, llama_context_default_params, llama_model_quantize_default_params */
void verk_defaults(returned (*function)(void), returned *into) { *into = function(); }

void *verk_load_model(void *(*function)(const char *, model_params), const char *path, const model_params *params) {
  return function(path, *params);
}

void *verk_open_context(void *(*function)(void *, context_params), void *model, const context_params *params) {
  return function(model, *params);
}

int32_t verk_decode(int32_t (*function)(void *, batch), void *context, int32_t count, int32_t *tokens,
                    int32_t *positions, int32_t *sequence_counts, int32_t **sequences, int8_t *wants_output) {
  return function(context, (batch){ count, tokens, NULL, positions, sequence_counts, sequences, wants_output });
}

/* llama_decode of embeddings instead of tokens */
int32_t verk_decode_rows(int32_t (*function)(void *, batch), void *context, int32_t count, float *embeddings,
                         int32_t *positions, int32_t *sequence_counts, int32_t **sequences, int8_t *wants_output) {
  return function(context, (batch){ count, NULL, embeddings, positions, sequence_counts, sequences, wants_output });
}

void *verk_ggml_init(void *(*function)(init_params), size_t bytes, bool no_alloc) {
  return function((init_params){ bytes, NULL, no_alloc });
}

void verk_graph_view(graph (*function)(void *, int32_t, int32_t), graph *into, void *whole, int32_t from, int32_t to) {
  *into = function(whole, from, to);
}

enum { ERROR_LEVEL = 4, FREE = 0, WRITING = 1, KEPT = 2 };

static char first_error[1024];
static atomic_int state = FREE;

/*
 * The logger of the library, called on any thread. Errors go to stderr, whose tail is shown when the worker dies. The
 * first error since verk_forget_error is kept. Other messages are dropped.
 */
void verk_log(int level, const char *text, void *unused) {
  (void)unused;
  if (level != ERROR_LEVEL) return;
  int saved = errno;
  size_t length = strlen(text);
  int expected = FREE;
  if (atomic_compare_exchange_strong(&state, &expected, WRITING)) {
    size_t kept = length < sizeof first_error ? length : sizeof first_error - 1;
    memcpy(first_error, text, kept);
    first_error[kept] = '\0';
    atomic_store(&state, KEPT);
  }
  while (length > 0) {
    ssize_t written = write(STDERR_FILENO, text, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    text += written;
    length -= (size_t)written;
  }
  errno = saved;
}

void verk_forget_error(void) {
  int expected = KEPT;
  atomic_compare_exchange_strong(&state, &expected, FREE);
}

const char *verk_first_error(void) { return atomic_load(&state) == KEPT ? first_error : ""; }

enum { MOST_READERS = 16, TRUNCATED = -1 };

typedef struct { int fd, code; uint8_t *into; uint64_t bytes, offset; } share;

static void *read_share(void *of) {
  share *own = of;
  for (uint64_t done = 0; done < own->bytes;) {
    ssize_t count = pread(own->fd, own->into + done, own->bytes - done, (off_t)(own->offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      own->code = count < 0 ? errno : TRUNCATED;
      break;
    }
    done += (uint64_t)count;
  }
  return NULL;
}

/* Reads all bytes, each thread one part of them. Returns 0, an errno, or TRUNCATED. A thread that cannot start is no error. */
int verk_read(int fd, uint8_t *into, uint64_t bytes, uint64_t offset, int threads) {
  share shares[MOST_READERS];
  pthread_t readers[MOST_READERS];
  bool started[MOST_READERS] = { false };
  int count = threads < 1 ? 1 : threads > MOST_READERS ? MOST_READERS : threads;
  for (int i = 0; i < count; i++) {
    uint64_t from = bytes * (uint64_t)i / (uint64_t)count, to = bytes * (uint64_t)(i + 1) / (uint64_t)count;
    shares[i] = (share){ fd, 0, into + from, to - from, offset + from };
    if (i > 0) started[i] = pthread_create(&readers[i], NULL, read_share, &shares[i]) == 0;
  }
  int code = 0;
  for (int i = 0; i < count; i++) {
    if (started[i]) pthread_join(readers[i], NULL);
    else read_share(&shares[i]);
    if (code == 0) code = shares[i].code;
  }
  return code;
}
