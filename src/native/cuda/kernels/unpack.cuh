// Quantised weights as BF16: rows of a matrix into the place where a product reads them, and rows of the table of tokens.
// Blocks lie as in a GGUF file, and the numbers are those that ggml decodes, rounded to BF16.
#pragma once
#include "decode/formats.cuh"

// Blocks of 32: the scale in F16, then sixteen bytes. Their low halves are the first sixteen numbers, the high ones the rest.
struct Q4OldRows {
  static constexpr int BLOCK = 18;
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) / 32 * BLOCK; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) {
    const uint8_t *block = row + static_cast<size_t>(k >> 5) * BLOCK;
    const float scale = halfAt(block);
    const uint16_t *pairs = reinterpret_cast<const uint16_t *>(block + 2 + (k & 15));
    const int shift = (k & 16) ? 4 : 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int two = pairs[i] >> shift;
      to[i] = pairOf(scale * static_cast<float>((two & 15) - 8), scale * static_cast<float>(((two >> 8) & 15) - 8));
    }
  }
};

// Factor and minimum of a group of 32, as Q4Rows has them.
struct Scales {
  float by, minus;
};
__device__ __forceinline__ Scales scalesOf(const uint8_t *block, int group) {
  const uint8_t *packed = block + 4;
  const bool early = group < 4;
  const int scale = early ? packed[group] & 63 : (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4);
  const int least = early ? packed[group + 4] & 63 : (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
  return {halfAt(block) * static_cast<float>(scale), halfAt(block + 2) * static_cast<float>(least)};
}

// As Q4Rows, with a fifth bit of each number: bit g of 32 bytes between the scales and the low bits is that of group g.
struct Q5Rows {
  static constexpr int BLOCK = 176;
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) / 256 * BLOCK; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) {
    const uint8_t *block = row + static_cast<size_t>(k >> 8) * BLOCK;
    const int group = (k >> 5) & 7;
    const Scales of = scalesOf(block, group);
    const uint2 low = *reinterpret_cast<const uint2 *>(block + 48 + (group >> 1) * 32 + (k & 31));
    const uint2 high = *reinterpret_cast<const uint2 *>(block + 16 + (k & 31));
    const int shift = (group & 1) * 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t two = (i < 2 ? low.x : low.y) >> ((i & 1) * 16 + shift), top = (i < 2 ? high.x : high.y) >> ((i & 1) * 16 + group);
      const uint32_t first = (two & 15u) | ((top & 1u) << 4), second = ((two >> 8) & 15u) | (((top >> 8) & 1u) << 4);
      to[i] = pairOf(of.by * static_cast<float>(first) - of.minus, of.by * static_cast<float>(second) - of.minus);
    }
  }
};

// The sixteen numbers of NF4: quantiles of a normal distribution, as QLoRA has them.
__device__ const float NF4_NUMBERS[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

// Blocks of 64: the largest number in F32, then four bits a number, the low half of a byte first.
struct Nf4Rows {
  static constexpr int BLOCK = 36;
  static __device__ __forceinline__ size_t rowBytes(int stride) { return static_cast<size_t>(stride) / 64 * BLOCK; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *row, int k) {
    const uint8_t *block = row + static_cast<size_t>(k >> 6) * BLOCK;
    const float most = *reinterpret_cast<const float *>(block);
    const uint32_t codes = *reinterpret_cast<const uint32_t *>(block + 4 + ((k & 63) >> 1));
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = pairOf(most * NF4_NUMBERS[(codes >> (8 * i)) & 15], most * NF4_NUMBERS[(codes >> (8 * i + 4)) & 15]);
  }
};

// The numbers are those of packed.ts.
enum Packing { PACKED_Q8_0, PACKED_Q4_0, PACKED_Q4_K, PACKED_Q5_K, PACKED_Q6_K, PACKED_NF4 };

struct PackedRow {
  const uint8_t *at;
  int packing;
  __device__ __forceinline__ void eight(uint32_t (&to)[4], int k) const {
    switch (packing) {
    case PACKED_Q8_0: return Q8Rows::eight(to, at, k);
    case PACKED_Q4_0: return Q4OldRows::eight(to, at, k);
    case PACKED_Q4_K: return Q4Rows::eight(to, at, k);
    case PACKED_Q5_K: return Q5Rows::eight(to, at, k);
    case PACKED_Q6_K: return Q6Rows::eight(to, at, k);
    default: return Nf4Rows::eight(to, at, k);
    }
  }
};

__device__ __forceinline__ PackedRow packedRow(const uint8_t *from, int row, int columns, int packing) {
  const size_t bytes = packing == PACKED_Q8_0   ? Q8Rows::rowBytes(columns)
                       : packing == PACKED_Q4_0 ? Q4OldRows::rowBytes(columns)
                       : packing == PACKED_Q4_K ? Q4Rows::rowBytes(columns)
                       : packing == PACKED_Q5_K ? Q5Rows::rowBytes(columns)
                       : packing == PACKED_Q6_K ? Q6Rows::rowBytes(columns)
                                                : Nf4Rows::rowBytes(columns);
  return {from + static_cast<size_t>(row) * bytes, packing};
}

// One block for each row. Eight numbers a thread at a time.
extern "C" __global__ void unpack_rows(const uint8_t *from, bf16 *to, int columns, int toStride, int packing) {
  const PackedRow row = packedRow(from, blockIdx.x, columns, packing);
  bf16 *out = to + static_cast<size_t>(blockIdx.x) * toStride;
  for (int i = threadIdx.x * 8; i < columns; i += blockDim.x * 8) {
    uint32_t eight[4];
    row.eight(eight, i);
    *reinterpret_cast<uint4 *>(out + i) = make_uint4(eight[0], eight[1], eight[2], eight[3]);
  }
}

// x = table[id], as `embed`.
extern "C" __global__ void embed_packed(const uint8_t *table, const int *ids, float *x, int width, int packing) {
  const PackedRow row = packedRow(table, ids[blockIdx.x], width, packing);
  float *to = x + static_cast<size_t>(blockIdx.x) * width;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    uint32_t eight[4];
    row.eight(eight, i);
    float v[8];
#pragma unroll
    for (int k = 0; k < 4; k++) v[2 * k] = __uint_as_float(eight[k] << 16), v[2 * k + 1] = __uint_as_float(eight[k] & 0xffff0000u);
    putEightFloats(to + i, v);
  }
}

// F32 to BF16. One block for each row.
extern "C" __global__ void round_rows(const float *from, bf16 *to, int width) {
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8];
    eightFloats(from + at + i, v);
    putEight(to + at + i, v);
  }
}

// BF16 to NF4, a block of 64 for each thread: the nearest number, and of two equally near the lower one.
extern "C" __global__ void pack_nf4(const bf16 *from, uint8_t *to, int blocks) {
  const int block = blockIdx.x * blockDim.x + threadIdx.x;
  if (block >= blocks) return;
  const bf16 *values = from + static_cast<size_t>(block) * 64;
  uint8_t *out = to + static_cast<size_t>(block) * Nf4Rows::BLOCK;
  float most = 0, some[8];
  for (int i = 0; i < 64; i += 8) {
    unpack(eightAt(values + i), some);
    for (int k = 0; k < 8; k++) most = fmaxf(most, fabsf(some[k]));
  }
  *reinterpret_cast<float *>(out) = most;
  for (int i = 0; i < 64; i += 8) {
    unpack(eightAt(values + i), some);
    uint32_t codes = 0;
    for (int k = 0; k < 8; k++) {
      const float share = most > 0 ? some[k] / most : 0;
      int code = 0;
      while (code < 15 && share - NF4_NUMBERS[code] > NF4_NUMBERS[code + 1] - share) code++;
      codes |= static_cast<uint32_t>(code) << (4 * k);
    }
    *reinterpret_cast<uint32_t *>(out + 4 + i / 2) = codes;
  }
}
