/* Blocks of prompts, for the threads that read and write them (lanes.c). */
#ifndef VERK_BLOCKS_H
#define VERK_BLOCKS_H

#include <stdint.h>

enum { HEAD_BYTES = 64, NAME_BYTES = 64, KEY_BYTES = 16, NONCE_BYTES = 16, BAD_BLOCK = -10000 };

/* `key` has 16 bytes, `name` 64 letters, `format` 4 bytes. */
typedef struct { const uint8_t *key; const char *name; const uint8_t *format; } block_name;

/* Both return 0, BAD_BLOCK or an errno. A file with more than `most` bytes is no block. */
int read_block(const block_name *of, const char *path, uint8_t *into, uint64_t most, uint64_t *bytes);
int write_block(const block_name *of, const char *temp, const char *path, const uint8_t *nonce, const uint8_t *plain,
                uint64_t bytes);

#endif
