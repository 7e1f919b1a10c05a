/* Functions with the signatures of libllama and libggml, which tell what arrived. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
typedef void (*logger)(int, const char *, void *);

static void *sum(uintptr_t first, const uint64_t *words, size_t count) {
  for (size_t i = 0; i < count; i++) first += (i + 1) * words[i];
  return (void *)first;
}

model_params llama_model_default_params(void) {
  model_params params;
  for (int i = 0; i < 10; i++) params.words[i] = 100 + (uint64_t)i;
  return params;
}
context_params llama_context_default_params(void) {
  context_params params;
  for (int i = 0; i < 20; i++) params.words[i] = 200 + (uint64_t)i;
  return params;
}
model_params llama_model_quantize_default_params(void) { return llama_model_default_params(); }
void *llama_model_load_from_file(const char *path, model_params params) {
  return sum((uintptr_t)path[0], params.words, 10);
}
void *llama_init_from_model(void *model, context_params params) { return sum((uintptr_t)model, params.words, 20); }
int32_t llama_decode(void *context, batch given) {
  if (given.embeddings != NULL) return -1;
  int32_t total = (int32_t)(uintptr_t)context;
  for (int32_t i = 0; i < given.count; i++)
    total += given.tokens[i] * given.positions[i] + given.sequence_counts[i] * *given.sequences[i] + given.wants_output[i];
  return total;
}
void *ggml_init(init_params params) {
  return (void *)(params.buffer == NULL && params.no_alloc ? params.bytes : 1);
}
context_params ggml_graph_view(void *graph, int32_t from, int32_t to) {
  context_params view = { { (uintptr_t)graph, (uint64_t)from, (uint64_t)to } };
  return view;
}
void say(logger log, int level, const char *text) { log(level, text, NULL); }
