// Eight numbers in a row of a weight, as BF16. Quantised weights keep the layout of a GGUF file. They are rounded to BF16,
// as the trainer decodes them, so that both multiply by the same numbers.
#pragma once
#include "device.cuh"

__device__ __forceinline__ float halfAt(const uint8_t *at) {
  const uint32_t bits = *reinterpret_cast<const uint16_t *>(at), sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest < 0x400u) return (sign ? -1.0f : 1.0f) * static_cast<float>(rest) * 5.9604644775390625e-8f; // below 2⁻¹⁴
  return __uint_as_float(sign | (rest < 0x7c00u ? (rest << 13) + 0x38000000u : (rest << 13) | 0x7f800000u));
}

struct Bf16Rows {
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) * 2; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) { take(to, streamed(row + static_cast<size_t>(k) * 2)); }
};

// Blocks of 32: the scale in F16, then 32 signed bytes.
struct Q8Rows {
  static constexpr int BLOCK = 34;
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) / 32 * BLOCK; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) {
    const uint8_t *block = row + static_cast<size_t>(k >> 5) * BLOCK;
    const float scale = halfAt(block);
    const uint16_t *pairs = reinterpret_cast<const uint16_t *>(block + 2 + (k & 31));
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int pair = pairs[i];
      to[i] = pairOf(scale * static_cast<float>(static_cast<int8_t>(pair & 0xff)), scale * static_cast<float>(static_cast<int8_t>(pair >> 8)));
    }
  }
};

// Blocks of 256: two factors in F16, twelve bytes with the 6-bit scales and minima of eight groups, then four bits a number:
// the low halves of 32 bytes are one group, the high halves the next.
struct Q4Rows {
  static constexpr int BLOCK = 144;
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) / 256 * BLOCK; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) {
    const uint8_t *block = row + static_cast<size_t>(k >> 8) * BLOCK, *packed = block + 4;
    const int group = (k >> 5) & 7;
    int scale, least;
    if (group < 4) {
      scale = packed[group] & 63, least = packed[group + 4] & 63;
    } else {
      scale = (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4);
      least = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
    }
    const float by = halfAt(block) * static_cast<float>(scale), minus = halfAt(block + 2) * static_cast<float>(least);
    const uint2 bytes = *reinterpret_cast<const uint2 *>(block + 16 + (group >> 1) * 32 + (k & 31));
    const int shift = (group & 1) * 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t two = (i < 2 ? bytes.x : bytes.y) >> ((i & 1) * 16 + shift);
      to[i] = pairOf(by * static_cast<float>(two & 15u) - minus, by * static_cast<float>((two >> 8) & 15u) - minus);
    }
  }
};

// Blocks of 256: the low four bits of all numbers, their high two bits, a signed scale for sixteen numbers each, the factor in
// F16. A half of a block is four groups of 32: the low bits of groups 0 and 2, and of 1 and 3, share 32 bytes; the high bits
// of all four share 32 bytes.
struct Q6Rows {
  static constexpr int BLOCK = 210;
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) / 256 * BLOCK; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) {
    const uint8_t *block = row + static_cast<size_t>(k >> 8) * BLOCK;
    const int half = (k >> 7) & 1, group = (k >> 5) & 3, place = k & 31;
    const uint16_t *low = reinterpret_cast<const uint16_t *>(block + half * 64 + (group & 1) * 32 + place);
    const uint16_t *high = reinterpret_cast<const uint16_t *>(block + 128 + half * 32 + place);
    const int8_t scale = static_cast<int8_t>(block[192 + half * 8 + group * 2 + (place >> 4)]);
    const float by = halfAt(block + 208) * static_cast<float>(scale);
    const int lowShift = (group >> 1) * 4, highShift = group * 2;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int two = low[i] >> lowShift, top = high[i] >> highShift;
      const int first = (two & 15) | ((top & 3) << 4), second = ((two >> 8) & 15) | (((top >> 8) & 3) << 4);
      to[i] = pairOf(by * static_cast<float>(first - 32), by * static_cast<float>(second - 32));
    }
  }
};
