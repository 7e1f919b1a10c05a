// Quantized weights as a product takes them: whole numbers as BF16, which is exact, and a scale for each group that is
// applied to the group's sum. So weights count as the file has them, and nothing is rounded before the sums in F32.
// A warp copies blocks of sixteen rows to shared memory as they lie in the file, and unpacks them there.
#pragma once
#include "product.cuh"

// Two BF16 numbers: times · a + b. One rounding, and none where the result is a small whole number.
__device__ __forceinline__ uint32_t timesPlus(uint32_t a, uint32_t times, uint32_t b) {
#ifdef VERK_EMULATED
  return pairOf(halfOf(a, 0) * halfOf(times, 0) + halfOf(b, 0), halfOf(a, 1) * halfOf(times, 1) + halfOf(b, 1));
#else
  uint32_t to;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(times), "r"(b));
  return to;
#endif
}
constexpr uint32_t BOTH_ONE = 0x3f803f80, BOTH_MINUS_ONE = 0xbf80bf80, BOTH_MINUS_128 = 0xc300c300, BOTH_MINUS_160 = 0xc320c320;

__device__ __forceinline__ float numberOfHalf(uint32_t bits) {
#ifdef VERK_EMULATED
  const uint16_t half = static_cast<uint16_t>(bits);
  return halfAt(reinterpret_cast<const uint8_t *>(&half));
#else
  float to;
  asm("cvt.f32.f16 %0, %1;" : "=f"(to) : "h"(static_cast<unsigned short>(bits)));
  return to;
#endif
}

// Bytes 0 … 127 as 128 + byte in BF16: the low seven bits of such a number are its fraction.
__device__ __forceinline__ void from128(uint32_t &low, uint32_t &high, uint32_t bytes) {
  low = __byte_perm(bytes, 0x43434343, 0x4140), high = __byte_perm(bytes, 0x43434343, 0x4342);
}
// Four numbers from each of two places.
__device__ __forceinline__ void takeHalves(uint32_t (&to)[4], const bf16 *first, const bf16 *second) {
  const uint2 low = *reinterpret_cast<const uint2 *>(first), high = *reinterpret_cast<const uint2 *>(second);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}
// Four bytes at an even address.
__device__ __forceinline__ uint32_t wordAt(const uint8_t *at) {
  const size_t address = reinterpret_cast<size_t>(at);
  const uint32_t *words = reinterpret_cast<const uint32_t *>(address & ~static_cast<size_t>(3));
  return __funnelshift_r(words[0], words[1], (address & 2) * 8);
}
__device__ __forceinline__ uint32_t halfWordAt(const uint8_t *at) { return *reinterpret_cast<const uint16_t *>(at); }

// A unit is what a warp copies at once: GROUPS groups of 32 of each row. A lane has eight numbers of each group: in a row,
// from quad · 8 on, or in HALVES, four from quad · 4 on and four from 16 + quad · 4 on.
struct Q4Packed : Q4Rows {
  static constexpr int GROUPS = 8, BYTES = 144, PIECES = 9, PITCH = 160, STAGES = 3, SLICE_UNIT = 256, SCALES = 1;
  static constexpr bool HALVES = false, MINIMA = true;
  struct Head {
    float by, shift, minus;
    uint32_t scales[2], minima;
  };
  static __device__ __forceinline__ size_t offset(int k) { return static_cast<size_t>(k >> 8) * BYTES; }
  static __device__ __forceinline__ Head head(const uint8_t *block, int quad) {
    const uint4 all = *reinterpret_cast<const uint4 *>(block); // as Q4Rows has them: two factors, twelve bytes
    const float by = numberOfHalf(all.x & 0xffffu);
    const uint32_t early = all.z & 0x3f3f3f3fu, late = ((all.w >> 4) & 0x0f0f0f0fu) | ((all.z >> 2) & 0x30303030u);
    const uint32_t two = __byte_perm(quad < 2 ? early : late, 0x43434343, quad & 1 ? 0x4342 : 0x4140); // of groups 2 · quad and the next
    return {by, -8388608.0f * by, numberOfHalf(all.x >> 16), {all.y & 0x3f3f3f3fu, (all.w & 0x0f0f0f0fu) | ((all.y >> 2) & 0x30303030u)}, timesPlus(two, BOTH_ONE, BOTH_MINUS_128)};
  }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *block, int group, int quad) {
    const uint2 bytes = *reinterpret_cast<const uint2 *>(block + 16 + (group >> 1) * 32 + quad * 8);
    const int shift = (group & 1) * 4;
    from128(to[0], to[1], (bytes.x >> shift) & 0x0f0f0f0fu);
    from128(to[2], to[3], (bytes.y >> shift) & 0x0f0f0f0fu);
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = timesPlus(to[i], BOTH_ONE, BOTH_MINUS_128);
  }
  static __device__ __forceinline__ void scales(float (&to)[1], const Head &head, const uint8_t *, int group) {
    const uint32_t bits = __byte_perm(head.scales[group >> 2], 0x4b000000, 0x7540 + (group & 3)); // 2²³ + scale
    to[0] = fmaf(__uint_as_float(bits), head.by, head.shift);
  }
};

struct Q6Packed : Q6Rows {
  static constexpr int GROUPS = 8, BYTES = 210, PIECES = 14, PITCH = 240, STAGES = 2, SLICE_UNIT = 256, SCALES = 2;
  static constexpr bool HALVES = true, MINIMA = false;
  struct Head {
    float by;
  };
  static __device__ __forceinline__ size_t offset(int k) { return static_cast<size_t>(k >> 8) * BYTES; }
  static __device__ __forceinline__ Head head(const uint8_t *block, int) { return {numberOfHalf(halfWordAt(block + 208))}; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *block, int group, int quad) {
    const int half = group >> 2, of = group & 3, lowShift = (of >> 1) * 4;
    const uint8_t *low = block + half * 64 + (of & 1) * 32 + quad * 4, *high = block + 128 + half * 32 + quad * 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t top = wordAt(high + 16 * i), place = of < 2 ? top << (4 - 2 * of) : top >> (2 * of - 4);
      from128(to[2 * i], to[2 * i + 1], ((wordAt(low + 16 * i) >> lowShift) & 0x0f0f0f0fu) | (place & 0x30303030u));
    }
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = timesPlus(to[i], BOTH_ONE, BOTH_MINUS_160);
  }
  static __device__ __forceinline__ void scales(float (&to)[2], const Head &head, const uint8_t *block, int group) {
    const uint32_t two = halfWordAt(block + 192 + 2 * group);
    to[0] = head.by * static_cast<float>(static_cast<int8_t>(two & 0xffu));
    to[1] = head.by * static_cast<float>(static_cast<int8_t>(two >> 8));
  }
};

struct Q8Packed : Q8Rows {
  static constexpr int GROUPS = 4, BYTES = 136, PIECES = 10, PITCH = 176, STAGES = 2, SLICE_UNIT = UNIT, SCALES = 1;
  static constexpr bool HALVES = true, MINIMA = false;
  struct Head {};
  static __device__ __forceinline__ size_t offset(int k) { return static_cast<size_t>(k >> 5) * BLOCK; }
  static __device__ __forceinline__ Head head(const uint8_t *, int) { return {}; }
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const uint8_t *block, int group, int quad) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t bytes = wordAt(block + group * BLOCK + 2 + 16 * i + quad * 4);
      uint32_t sign[2]; // 256 for a number below zero, otherwise 128
      from128(to[2 * i], to[2 * i + 1], bytes & 0x7f7f7f7fu);
      from128(sign[0], sign[1], bytes & 0x80808080u);
#pragma unroll
      for (int e = 0; e < 2; e++) to[2 * i + e] = timesPlus(sign[e], BOTH_MINUS_ONE, to[2 * i + e]);
    }
  }
  static __device__ __forceinline__ void scales(float (&to)[1], const Head &, const uint8_t *block, int group) {
    to[0] = numberOfHalf(halfWordAt(block + group * BLOCK));
  }
};

// As sliceStart, at multiples of a format's blocks.
template <class Format> __device__ __forceinline__ int packedStart(int slice, int slices, int depth) {
  const uint32_t units = (depth + Format::SLICE_UNIT - 1) / Format::SLICE_UNIT;
  return units * slice / static_cast<uint32_t>(slices) * Format::SLICE_UNIT; // in 64 bits, the division would take a quarter of a product's time
}

// Sixteen rows of weights of a warp, and the lane's part of them.
template <class Format> struct PackedRows {
  static constexpr int NUMBERS = 32 * Format::GROUPS, STAGE_BYTES = 16 * Format::PITCH;
  const uint8_t *rows[2];
  int group, quad;

  // Copies the numbers from k to `end`, at most a unit. A row of the stage begins with the piece of sixteen bytes in which
  // its numbers begin.
  __device__ __forceinline__ void fetch(char *stage, int k, int end) const {
    constexpr bool WHOLE_UNITS = Format::SLICE_UNIT == NUMBERS;
    const int bytes = WHOLE_UNITS ? Format::BYTES : min(Format::BYTES, static_cast<int>(Format::offset(end) - Format::offset(k)));
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint8_t *from = rows[h] + Format::offset(k);
      const int before = beforeOf(from);
      char *to = stage + (group + 8 * h) * Format::PITCH;
#pragma unroll
      for (int piece = 0; piece < Format::PIECES; piece += 4)
        if ((piece + quad) * 16 < before + bytes) copySixteen(to + (piece + quad) * 16, from - before + (piece + quad) * 16, true);
    }
  }
  __device__ __forceinline__ const uint8_t *blockOf(const char *stage, int k, int h) const {
    return reinterpret_cast<const uint8_t *>(stage) + (group + 8 * h) * Format::PITCH + beforeOf(rows[h] + Format::offset(k));
  }
  static __device__ __forceinline__ int beforeOf(const uint8_t *from) { return Format::BYTES % 16 == 0 && Format::SLICE_UNIT == NUMBERS ? 0 : reinterpret_cast<size_t>(from) & 15; }
};

// A unit in shared memory, ready for products: sums of groups go to the sums of eight tokens.
template <class Format> struct PackedUnit {
  const uint8_t *blocks[2];
  typename Format::Head heads[2];
  __device__ __forceinline__ PackedUnit(const PackedRows<Format> &of, const char *stage, int k) {
#pragma unroll
    for (int h = 0; h < 2; h++) blocks[h] = of.blockOf(stage, k, h), heads[h] = Format::head(blocks[h], of.quad);
  }
  template <int NT> __device__ __forceinline__ void addGroup(float (&sums)[NT][4], const uint32_t (&right)[NT][4], int group, int quad) const {
    LeftRows left;
    float by[2][Format::SCALES];
    Format::eight(left.low, blocks[0], group, quad);
    Format::eight(left.high, blocks[1], group, quad);
#pragma unroll
    for (int h = 0; h < 2; h++) Format::scales(by[h], heads[h], blocks[h], group);
    const uint32_t first[4] = {left.low[0], left.high[0], left.low[1], left.high[1]};
    const uint32_t second[4] = {left.low[2], left.high[2], left.low[3], left.high[3]};
#pragma unroll
    for (int n = 0; n < NT; n++) {
      float part[4] = {};
      multiply(part, first, right[n][0], right[n][1]);
      if constexpr (Format::SCALES == 2) {
#pragma unroll
        for (int e = 0; e < 4; e++) sums[n][e] = fmaf(by[e >> 1][0], part[e], sums[n][e]), part[e] = 0;
      }
      multiply(part, second, right[n][2], right[n][3]);
#pragma unroll
      for (int e = 0; e < 4; e++) sums[n][e] = fmaf(by[e >> 1][Format::SCALES - 1], part[e], sums[n][e]);
    }
  }
  // Minima: a number of each group, times the sum of the group's activations. `groupSums` are of eight tokens.
  template <int NT> __device__ __forceinline__ void addMinima(float (&sums)[NT][4], const uint2 (&groupSums)[NT]) const {
    if constexpr (Format::MINIMA) {
      const uint32_t left[4] = {heads[0].minima, heads[1].minima, heads[0].minima, heads[1].minima};
#pragma unroll
      for (int n = 0; n < NT; n++) {
        float part[4] = {};
        multiply(part, left, groupSums[n].x, groupSums[n].y);
#pragma unroll
        for (int e = 0; e < 4; e++) sums[n][e] = fmaf(-heads[e >> 1].minus, part[e], sums[n][e]);
      }
    }
  }
};

// Sums of groups of 32 activations, each as two BF16 numbers. For a block of 256, lane `quad` of a product reads those of
// groups 2 · quad and the next: [row][block][quad]. One block for each row.
extern "C" __global__ void sum_groups(const bf16 *x, uint2 *sums, int depth, int xStride) {
  letNextBegin();
  waitForPrevious();
  for (int i = threadIdx.x * 8; i < depth; i += blockDim.x * 8) {
    float v[8], sum = 0;
    unpack(eightAt(x + static_cast<size_t>(blockIdx.x) * xStride + i), v);
#pragma unroll
    for (int k = 0; k < 8; k++) sum += v[k];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const float next = __shfl_xor_sync(~0u, sum, 4);
    if ((threadIdx.x & 7) != 0) continue;
    const float high = rounded(sum), nextHigh = rounded(next);
    sums[(static_cast<size_t>(blockIdx.x) * depth + i) >> 6] = {pairOf(high, nextHigh), pairOf(sum - high, next - nextHigh)};
  }
}
