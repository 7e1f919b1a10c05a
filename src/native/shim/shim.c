/*
 * Calls of libllama and libggml that JavaScript cannot make: bun:ffi passes no struct by value and receives none, and
 * the library's logger may be called on any thread. The address of the library's function comes first in each call.
 *
 * The library's headers are not needed. A struct is words of the size that src/native/llama/params.ts checks at start;
 * integers alone, over 16 bytes, it is passed and returned as the library's own struct on every architecture. A struct
 * that is returned goes through memory of the caller: it may be smaller than `returned` and `graph` say, never larger.
 */
#include <errno.h>
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
 * The library's logger, on any thread. An error goes to stderr, whose tail a person sees when the worker dies; the first
 * one since verk_forget_error is kept. Milder messages are dropped.
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
