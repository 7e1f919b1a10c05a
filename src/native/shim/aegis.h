/*
 * AEGIS-128X2, an authenticated cipher of AES rounds (draft-irtf-cfrg-aegis-aead): several times as fast as AES-GCM. It has
 * two lanes, each of which reads every second block of 16 bytes. Include it with ROUND and NAMED, with TARGET for the
 * functions, and with VECTOR: the type of one lane, or of both. A stream is cut into pieces: every one but the last is a
 * multiple of 64 bytes.
 */
#ifndef AEGIS_BYTES
#define AEGIS_BYTES
enum { AEGIS_PAIR = 32, AEGIS_STEP = 64, AEGIS_TAG = 32 };
typedef struct { uint8_t words[8][AEGIS_PAIR]; } aegis;
#endif

enum { NAMED(lanes) = AEGIS_PAIR / sizeof(VECTOR) };
typedef struct { VECTOR s[8]; } NAMED(lane);

TARGET static inline VECTOR NAMED(load)(const uint8_t *from) {
  VECTOR word;
  memcpy(&word, from, sizeof word);
  return word;
}
TARGET static inline void NAMED(store)(uint8_t *to, VECTOR word) { memcpy(to, &word, sizeof word); }
TARGET static inline VECTOR NAMED(repeat)(const uint8_t *block) {
  uint8_t both[AEGIS_PAIR];
  memcpy(both, block, 16);
  memcpy(both + 16, block, 16);
  return NAMED(load)(both);
}
TARGET static inline NAMED(lane) NAMED(open)(const aegis *from, int lane) {
  NAMED(lane) of;
  for (int i = 0; i < 8; i++) of.s[i] = NAMED(load)(from->words[i] + 16 * lane);
  return of;
}
TARGET static inline void NAMED(save)(aegis *to, int lane, const NAMED(lane) *of) {
  for (int i = 0; i < 8; i++) NAMED(store)(to->words[i] + 16 * lane, of->s[i]);
}

TARGET static inline void NAMED(update)(NAMED(lane) *of, VECTOR a, VECTOR b) {
  VECTOR *s = of->s, last = s[7];
  s[7] = ROUND(s[6], s[7]);
  s[6] = ROUND(s[5], s[6]);
  s[5] = ROUND(s[4], s[5]);
  s[4] = ROUND(s[3], s[4] ^ b);
  s[3] = ROUND(s[2], s[3]);
  s[2] = ROUND(s[1], s[2]);
  s[1] = ROUND(s[0], s[1]);
  s[0] = ROUND(last, s[0] ^ a);
}

/* `about` is authenticated: a multiple of 64 bytes. */
TARGET static void NAMED(begin)(aegis *state, const uint8_t *key, const uint8_t *nonce, const uint8_t *about, size_t bytes) {
  static const uint8_t c0[] = { 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 121, 98 };
  static const uint8_t c1[] = { 219, 61, 24, 85, 109, 194, 47, 241, 32, 17, 49, 66, 115, 181, 40, 221 };
  static const uint8_t which[AEGIS_PAIR] = { 0, 1, [16] = 1, [17] = 1 }; /* the number of a lane, and the last number */
  VECTOR k = NAMED(repeat)(key), n = NAMED(repeat)(nonce), zero = NAMED(repeat)(c0), one = NAMED(repeat)(c1);
  for (int lane = 0; lane < (int)NAMED(lanes); lane++) {
    NAMED(lane) of = { { k ^ n, one, zero, one, k ^ n, k ^ zero, k ^ one, k ^ zero } };
    VECTOR context = NAMED(load)(which + 16 * lane);
    for (int i = 0; i < 10; i++) {
      of.s[3] ^= context;
      of.s[7] ^= context;
      NAMED(update)(&of, n, k);
    }
    for (const uint8_t *at = about + 16 * lane; at < about + bytes; at += AEGIS_STEP)
      NAMED(update)(&of, NAMED(load)(at), NAMED(load)(at + AEGIS_PAIR));
    NAMED(save)(state, lane, &of);
  }
}

TARGET static inline void NAMED(step)(NAMED(lane) *of, const uint8_t *from, uint8_t *to, bool is_sealing) {
  VECTOR *s = of->s, a = NAMED(load)(from), b = NAMED(load)(from + AEGIS_PAIR);
  VECTOR x = a ^ s[1] ^ s[6] ^ (s[2] & s[3]), y = b ^ s[2] ^ s[5] ^ (s[6] & s[7]);
  NAMED(store)(to, x);
  NAMED(store)(to + AEGIS_PAIR, y);
  if (is_sealing) NAMED(update)(of, a, b);
  else NAMED(update)(of, x, y);
}

TARGET static void NAMED(turn)(aegis *state, const uint8_t *from, uint8_t *to, size_t bytes, bool is_sealing) {
  size_t whole = bytes / AEGIS_STEP * AEGIS_STEP, rest = bytes - whole;
  uint8_t in[AEGIS_STEP] = { 0 }, out[AEGIS_STEP];
  memcpy(in, from + whole, rest);
  for (int lane = 0; lane < (int)NAMED(lanes); lane++) {
    NAMED(lane) of = NAMED(open)(state, lane);
    size_t at = 16 * (size_t)lane;
    if (is_sealing) for (; at < whole; at += AEGIS_STEP) NAMED(step)(&of, from + at, to + at, true);
    else for (; at < whole; at += AEGIS_STEP) NAMED(step)(&of, from + at, to + at, false);
    if (rest > 0) {
      NAMED(lane) before = of;
      NAMED(step)(&of, in + 16 * lane, out + 16 * lane, is_sealing);
      if (!is_sealing) { /* the plain text goes on with zeros, not with what zeros decrypt to */
        uint8_t plain[AEGIS_STEP] = { 0 };
        memcpy(plain, out, rest);
        of = before;
        NAMED(update)(&of, NAMED(load)(plain + 16 * lane), NAMED(load)(plain + AEGIS_PAIR + 16 * lane));
      }
    }
    NAMED(save)(state, lane, &of);
  }
  memcpy(to + whole, out, rest);
}

TARGET static void NAMED(end)(aegis *state, uint64_t about_bytes, uint64_t bytes, uint8_t tag[AEGIS_TAG]) {
  uint64_t bits[2] = { 8 * about_bytes, 8 * bytes };
  memset(tag, 0, AEGIS_TAG);
  for (int lane = 0; lane < (int)NAMED(lanes); lane++) {
    NAMED(lane) of = NAMED(open)(state, lane);
    VECTOR t = of.s[2] ^ NAMED(repeat)((const uint8_t *)bits);
    for (int i = 0; i < 7; i++) NAMED(update)(&of, t, t);
    for (int part = 0; part < 2; part++) {
      VECTOR *s = of.s + 4 * part, sum = s[0] ^ s[1] ^ s[2] ^ s[3];
      uint8_t bytes_of[sizeof sum];
      NAMED(store)(bytes_of, sum);
      for (size_t i = 0; i < sizeof sum; i++) tag[16 * part + i % 16] ^= bytes_of[i];
    }
  }
}
