// Pages of keys and values, and how a page keeps its numbers: BF16, or bytes with a scale for 32 numbers of a token.
#pragma once
#include "formats.cuh"

// Four bytes with a sign as two pairs in BF16, which is exact: the low seven bits behind 128, less 128 or 256.
__device__ __forceinline__ uint32_t minusPair(uint32_t a, uint32_t b) {
#ifdef VERK_EMULATED
  return pairOf(__uint_as_float(a << 16) - __uint_as_float(b << 16), __uint_as_float(a & 0xffff0000u) - __uint_as_float(b & 0xffff0000u));
#else
  uint32_t to;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(to) : "r"(b), "r"(0xbf80bf80u), "r"(a));
  return to;
#endif
}
__device__ __forceinline__ void signedBytes(uint32_t &low, uint32_t &high, uint32_t bytes) {
  const uint32_t rest = bytes & 0x7f7f7f7fu, signs = bytes & 0x80808080u;
  low = minusPair(__byte_perm(rest, 0x43434343, 0x4140), __byte_perm(signs, 0x43434343, 0x4140));
  high = minusPair(__byte_perm(rest, 0x43434343, 0x4342), __byte_perm(signs, 0x43434343, 0x4342));
}

// A page of one layer: for each key head PAGE keys of `length` numbers, then for each key head `length` rows of PAGE values:
// values are turned, so that the tensor cores read both as rows. Exact attention has values that lie like keys. Heads are kept
// in the next length that the kernels have; what is behind their numbers stays zero.
struct Pages {
  bf16 *base;
  const int *table; // [slot][tableStride]: pages of a sequence, in order
  int tableStride, keyHeads;
  // The keys of a key head; `head` + keyHeads: its values.
  __device__ __forceinline__ uint8_t *record(int page, int head, int bytes) const {
    return reinterpret_cast<uint8_t *>(base) + (static_cast<size_t>(page) * 2 * keyHeads + head) * bytes;
  }
  __device__ __forceinline__ bf16 *keys(int page, int keyHead, int length) const {
    return base + (static_cast<size_t>(page) * 2 * keyHeads + keyHead) * PAGE * length;
  }
  __device__ __forceinline__ bf16 *values(int page, int keyHead, int length) const {
    return base + (static_cast<size_t>(page) * 2 * keyHeads + keyHeads + keyHead) * PAGE * length;
  }
};

// Eight numbers of a key from 32 · b + 8 · quad on, or eight tokens of a row of values from 8 · quad on. `placed`: in shared
// memory, where pieces of sixteen bytes change places so that the lanes that read together find them in different banks.
template <int LENGTH> struct Bf16Kept {
  static constexpr bool SCALED = false;
  static constexpr int BYTES = PAGE * LENGTH * 2;
  using Raw = uint4;
  static __device__ __forceinline__ int placeOfPiece(int row, int piece) { return (row * LENGTH + ((LENGTH % 64 == 0 ? piece ^ ((row & 1) << 2) : piece) << 3)) * 2; }
  static __device__ __forceinline__ int placeOfKeys(int i) { return placeOfPiece(i / (LENGTH / 8), i % (LENGTH / 8)); }
  static __device__ __forceinline__ Raw key(const uint8_t *keys, int row, int b, int quad) { return *reinterpret_cast<const Raw *>(keys + (row * LENGTH + b * 32 + quad * 8) * 2); }
  static __device__ __forceinline__ Raw placedKey(const uint8_t *keys, int row, int b, int quad) { return *reinterpret_cast<const Raw *>(keys + placeOfPiece(row, b * 4 + quad)); }
  static __device__ __forceinline__ Raw value(const uint8_t *values, int d, int quad) { return *reinterpret_cast<const Raw *>(values + (d * PAGE + quad * 8) * 2); }
  static __device__ __forceinline__ void numbers(uint32_t (&to)[4], const Raw &from) { take(to, from); }
  static __device__ __forceinline__ uint4 scales(const uint8_t *, int, int) { return make_uint4(0, 0, 0, 0); }
};

// Bytes below zero are those of two's complement; -128 does not occur. Then scales in BF16: [32 numbers][token].
template <int LENGTH> struct Q8Kept {
  static constexpr bool SCALED = true;
  static constexpr int NUMBERS = PAGE * LENGTH, BYTES = NUMBERS + PAGE * (LENGTH / 32) * 2;
  using Raw = uint2;
  static __device__ __forceinline__ int placeOfPiece(int row, int piece) {
    if (LENGTH == 64) piece ^= (row >> 3 & 1) << 1;
    if (LENGTH == 128 || LENGTH == 256) piece ^= (row & 1) << 1 | (row >> 3 & 1) << 2;
    return row * LENGTH + piece * 16;
  }
  static __device__ __forceinline__ int placeOfKeys(int i) { return i < NUMBERS / 16 ? placeOfPiece(i / (LENGTH / 16), i % (LENGTH / 16)) : i * 16; }
  static __device__ __forceinline__ Raw key(const uint8_t *keys, int row, int b, int quad) { return *reinterpret_cast<const Raw *>(keys + row * LENGTH + b * 32 + quad * 8); }
  static __device__ __forceinline__ Raw placedKey(const uint8_t *keys, int row, int b, int quad) { return *reinterpret_cast<const Raw *>(keys + placeOfPiece(row, b * 2 + (quad >> 1)) + (quad & 1) * 8); }
  static __device__ __forceinline__ Raw value(const uint8_t *values, int d, int quad) { return *reinterpret_cast<const Raw *>(values + d * PAGE + quad * 8); }
  static __device__ __forceinline__ void numbers(uint32_t (&to)[4], const Raw &from) {
    signedBytes(to[0], to[1], from.x);
    signedBytes(to[2], to[3], from.y);
  }
  // Those of eight tokens from 8 · quad on.
  static __device__ __forceinline__ uint4 scales(const uint8_t *record, int b, int quad) { return *reinterpret_cast<const uint4 *>(record + NUMBERS + (b * PAGE + quad * 8) * 2); }
};

__device__ __forceinline__ float2 twoScales(const uint4 &from, int j) {
  const uint32_t two = j == 0 ? from.x : j == 1 ? from.y : j == 2 ? from.z : from.w;
  return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
}
