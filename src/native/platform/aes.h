/* One round of AES on vectors of 16 bytes, by instructions of the processor or, where it has none, by a table. */
#ifndef VERK_AES_H
#define VERK_AES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t aes_block __attribute__((vector_size(16)));

#if defined __x86_64__
#include <immintrin.h>
#define AES_TARGET __attribute__((target("aes,avx")))
static inline bool has_aes(void) { return __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx"); }
static inline AES_TARGET aes_block aes_fast_round(aes_block in, aes_block key) {
  return (aes_block)_mm_aesenc_si128((__m128i)in, (__m128i)key);
}
/* Some processors carry out both rounds by one instruction. */
#define AES_WIDE_TARGET __attribute__((target("vaes,avx2")))
typedef uint8_t aes_wide __attribute__((vector_size(32)));
static inline bool has_wide_aes(void) { return __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx2"); }
static inline AES_WIDE_TARGET aes_wide aes_wide_round(aes_wide in, aes_wide key) {
  return (aes_wide)_mm256_aesenc_epi128((__m256i)in, (__m256i)key);
}
#elif defined __aarch64__
#include <arm_neon.h>
#include <sys/auxv.h>
#define AES_TARGET __attribute__((target("+crypto")))
static inline bool has_aes(void) { return (getauxval(AT_HWCAP) & (1 << 3)) != 0; }
static inline AES_TARGET aes_block aes_fast_round(aes_block in, aes_block key) {
  uint8x16_t mixed = vaesmcq_u8(vaeseq_u8((uint8x16_t)in, vdupq_n_u8(0)));
  return (aes_block)mixed ^ key;
}
#endif

/* S(x) of the standard: the inverse of x in GF(2^8), then an affine map. Filled by aes_prepare. */
static uint8_t aes_box[256];

static inline uint8_t aes_double(uint8_t x) { return (uint8_t)(x << 1) ^ (x & 0x80 ? 0x1b : 0); }

/* The powers of 3 run through all numbers but 0, those of its inverse run through their inverses. */
static inline void aes_prepare(void) {
  uint8_t power = 1, inverse = 1;
  do {
    power = power ^ aes_double(power);
    inverse ^= (uint8_t)(inverse << 1);
    inverse ^= (uint8_t)(inverse << 2);
    inverse ^= (uint8_t)(inverse << 4);
    if (inverse & 0x80) inverse ^= 0x09;
    uint8_t turned = inverse;
    for (int i = 1; i < 5; i++) turned ^= (uint8_t)(inverse << i | inverse >> (8 - i));
    aes_box[power] = turned ^ 0x63;
  } while (power != 1);
  aes_box[0] = 0x63;
}

static inline aes_block aes_plain_round(aes_block in, aes_block key) {
  aes_block out;
  for (int column = 0; column < 4; column++) {
    uint8_t a[4], all = 0;
    for (int row = 0; row < 4; row++) all ^= a[row] = aes_box[in[4 * ((column + row) & 3) + row]];
    for (int row = 0; row < 4; row++) out[4 * column + row] = a[row] ^ all ^ aes_double(a[row] ^ a[(row + 1) & 3]);
  }
  return out ^ key;
}

#endif
