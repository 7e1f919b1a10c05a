/*
 * Threads that read, open, seal and write blocks of prompts beside the decoding thread, from and to memory that the device
 * copies by itself. A slot is a place in that memory with one block at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blocks.h"

enum { FREE = 0, READ = 1, WRITE = 2, BUSY = 3, DONE = 4, FAILED = 5 };
enum { MOST_LANES = 64, PATH_BYTES = 4096, TEMP_BYTES = 128 };

typedef struct {
  uint8_t *at;
  uint64_t room, bytes, turn;
  int state;
  char name[NAME_BYTES + 1], temp[TEMP_BYTES];
  uint8_t nonce[NONCE_BYTES];
} slot;

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t wanted, settled;
  bool is_over;
  int threads, slots;
  uint64_t turns;
  uint8_t key[KEY_BYTES], format[4];
  char dir[PATH_BYTES];
  pthread_t lanes[MOST_LANES];
  slot slot[];
} lanes;

/* The oldest slot that waits. */
static slot *next_of(lanes *all) {
  slot *next = NULL;
  for (int i = 0; i < all->slots; i++) {
    slot *each = &all->slot[i];
    if (each->state != READ && each->state != WRITE) continue;
    if (!next || each->turn < next->turn) next = each;
  }
  return next;
}

static bool carry_out(lanes *all, slot *of, bool is_read) {
  char path[PATH_BYTES + NAME_BYTES + 2], temp[PATH_BYTES + TEMP_BYTES + 2];
  block_name block = { all->key, of->name, all->format };
  snprintf(path, sizeof path, "%s/%s", all->dir, of->name);
  if (is_read) return read_block(&block, path, of->at, of->room, &of->bytes) == 0;
  snprintf(temp, sizeof temp, "%s/%s", all->dir, of->temp);
  return write_block(&block, temp, path, of->nonce, of->at, of->bytes) == 0;
}

static void *lane(void *of) {
  lanes *all = of;
  pthread_mutex_lock(&all->lock);
  for (;;) {
    slot *next = next_of(all);
    if (all->is_over) break;
    if (!next) {
      pthread_cond_wait(&all->wanted, &all->lock);
      continue;
    }
    bool is_read = next->state == READ;
    next->state = BUSY;
    pthread_mutex_unlock(&all->lock);
    bool is_done = carry_out(all, next, is_read);
    pthread_mutex_lock(&all->lock);
    next->state = is_done ? DONE : FAILED; /* the decoding thread does it again, and learns why */
    pthread_cond_broadcast(&all->settled);
  }
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

/* `places`: an address and a length for each slot. Null: no thread can be started. */
lanes *verk_open_lanes(int threads, const char *dir, const uint8_t *key, const uint8_t *format, const uint64_t *places,
                       int slots) {
  lanes *all = calloc(1, sizeof(lanes) + sizeof(slot) * (size_t)slots);
  if (!all || strlen(dir) >= PATH_BYTES) return free(all), NULL;
  pthread_mutex_init(&all->lock, NULL);
  pthread_cond_init(&all->wanted, NULL);
  pthread_condattr_t steady;
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(&all->settled, &steady);
  memcpy(all->key, key, KEY_BYTES);
  memcpy(all->format, format, sizeof all->format);
  strcpy(all->dir, dir);
  all->slots = slots;
  for (int i = 0; i < slots; i++) all->slot[i] = (slot){ .at = (uint8_t *)(uintptr_t)places[2 * i], .room = places[2 * i + 1] };
  while (all->threads < threads && all->threads < MOST_LANES) {
    if (pthread_create(&all->lanes[all->threads], NULL, lane, all) != 0) break;
    all->threads++;
  }
  if (all->threads == 0) return free(all), NULL;
  return all;
}

static void want(lanes *all, slot *of, int state, const char *name) {
  memcpy(of->name, name, NAME_BYTES);
  pthread_mutex_lock(&all->lock);
  of->state = state;
  of->turn = all->turns++;
  pthread_cond_signal(&all->wanted);
  pthread_mutex_unlock(&all->lock);
}

/* The slot is free, done or failed. */
void verk_lanes_read(lanes *all, int at, const char *name) { want(all, &all->slot[at], READ, name); }

void verk_lanes_write(lanes *all, int at, const char *name, uint64_t bytes, const char *temp, const uint8_t *nonce) {
  slot *of = &all->slot[at];
  of->bytes = bytes;
  snprintf(of->temp, sizeof of->temp, "%s", temp);
  memcpy(of->nonce, nonce, NONCE_BYTES);
  want(all, of, WRITE, name);
}

/* Waits so long at most. Returns the bytes of the block, -1 if it failed, or -2 while it is under way. */
int64_t verk_lanes_result(lanes *all, int at, double ms) {
  slot *of = &all->slot[at];
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + (int64_t)(ms * 1e6);
  until.tv_sec += ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  pthread_mutex_lock(&all->lock);
  while (of->state != FREE && of->state < DONE && ms > 0)
    if (pthread_cond_timedwait(&all->settled, &all->lock, &until) == ETIMEDOUT) break;
  int64_t result = of->state == DONE ? (int64_t)of->bytes : of->state == FAILED || of->state == FREE ? -1 : -2;
  pthread_mutex_unlock(&all->lock);
  return result;
}

/* Waits for what a lane is doing. What waits is not begun. */
void verk_close_lanes(lanes *all) {
  pthread_mutex_lock(&all->lock);
  all->is_over = true;
  pthread_cond_broadcast(&all->wanted);
  pthread_mutex_unlock(&all->lock);
  for (int i = 0; i < all->threads; i++) pthread_join(all->lanes[i], NULL);
  pthread_cond_destroy(&all->wanted);
  pthread_cond_destroy(&all->settled);
  pthread_mutex_destroy(&all->lock);
  memset(all->key, 0, sizeof all->key);
  free(all);
}
