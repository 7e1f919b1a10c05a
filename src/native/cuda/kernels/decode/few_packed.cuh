// Products of few tokens and quantized weights. Each warp of a block sums one slice of sixteen rows.
#pragma once
#include "packed.cuh"

// NT tiles of eight tokens. `groupSums` are those of sum_groups, for formats with minima.
template <class Format, int NT> __device__ __forceinline__ void multiplyFewPacked(const Product &of, const uint2 *groupSums) {
  using Rows = PackedRows<Format>;
  constexpr int TOKENS = 8 * NT, PITCH = 20, TOGETHER = NT == 1 ? Format::GROUPS : Format::GROUPS / 2;
  DYNAMIC_SHARED(shared);
  const int lane = threadIdx.x & 31, slice = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int token0 = blockIdx.y * TOKENS;
  char *stages = shared + slice * Format::STAGES * Rows::STAGE_BYTES;
  const Rows rows{{of.rowAt<Format>(blockIdx.x, group), of.rowAt<Format>(blockIdx.x, group + 8)}, group, quad};
  int k = packedStart<Format>(slice, of.slices, of.depth);
  const int end = min(packedStart<Format>(slice + 1, of.slices, of.depth), of.depth);
  const auto fetch = [&](int stage, int from) {
    if (from < end) rows.fetch(stages + stage * Rows::STAGE_BYTES, from, end);
    commitLoads();
  };
#pragma unroll
  for (int s = 0; s < Format::STAGES; s++) fetch(s, k + s * Rows::NUMBERS);
  letNextBegin();
  waitForPrevious();

  const bf16 *x = of.x + static_cast<size_t>(token0 + group) * of.xStride;
  float acc[NT][4] = {};
  for (int stage = 0; k < end; k += Rows::NUMBERS, stage = stage + 1 == Format::STAGES ? 0 : stage + 1) {
    uint2 minima[NT];
    if constexpr (Format::MINIMA) {
#pragma unroll
      for (int n = 0; n < NT; n++) {
        const int token = token0 + group + 8 * n;
        minima[n] = token < of.count ? groupSums[((static_cast<size_t>(token) * of.depth + k) >> 6) + quad] : uint2{0, 0};
      }
    }
    uint32_t right[TOGETHER][NT][4];
    const auto take = [&](int first) {
#pragma unroll
      for (int g = 0; g < TOGETHER; g++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
          const int at = k + 32 * (first + g);
          const bf16 *from = x + static_cast<size_t>(8 * n) * of.xStride + at;
          if ((Format::SLICE_UNIT < Rows::NUMBERS && at >= end) || token0 + group + 8 * n >= of.count) takeNothing(right[g][n]);
          else if (Format::HALVES) takeHalves(right[g][n], from + quad * 4, from + 16 + quad * 4);
          else takeRow(right[g][n], from + quad * 8);
        }
    };
    take(0);
    waitForLoads<Format::STAGES - 1>();
    __syncwarp();
    const PackedUnit<Format> unit(rows, stages + stage * Rows::STAGE_BYTES, k);
#pragma unroll
    for (int first = 0; first < Format::GROUPS; first += TOGETHER) {
      if (first > 0) take(first);
#pragma unroll
      for (int g = 0; g < TOGETHER; g++)
        if (Format::SLICE_UNIT == Rows::NUMBERS || k + 32 * (first + g) < end) unit.addGroup(acc, right[g], first + g, quad);
    }
    unit.addMinima(acc, minima);
    __syncwarp();
    fetch(stage, k + Format::STAGES * Rows::NUMBERS);
  }
  __syncthreads(); // the stages become sums: [slice][token][PITCH]
  float *sums = reinterpret_cast<float *>(shared);
#pragma unroll
  for (int n = 0; n < NT; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) sums[(slice * TOKENS + n * 8 + quad * 2 + (e & 1)) * PITCH + group + (e >> 1) * 8] = acc[n][e];
  __syncthreads();

  const auto sumOf = [&](int token, int row) {
    float sum = sums[token * PITCH + row];
    for (int s = 1; s < of.slices; s++) sum += sums[(s * TOKENS + token) * PITCH + row];
    return sum;
  };
  const int valid = min(TOKENS, of.count - token0);
  if (of.mode == GATED) {
    for (int i = threadIdx.x; i < valid * 8; i += blockDim.x) {
      const int token = i >> 3, row = blockIdx.x * 8 + (i & 7);
      if (row < of.rows / 2) of.putGated(token0 + token, row, sumOf(token, i & 7), sumOf(token, (i & 7) + 8));
    }
    return;
  }
  for (int i = threadIdx.x; i < valid * 16; i += blockDim.x) {
    const int token = i >> 4, row = blockIdx.x * 16 + (i & 15);
    if (row < of.rows) of.put(token0 + token, row, sumOf(token, i & 15));
  }
}

#define FEW_PACKED(NAME, FORMAT)                                                                                                                           \
  extern "C" __global__ __launch_bounds__(256, 2) void product_##NAME##_8(Product of, const uint2 *groupSums) { multiplyFewPacked<FORMAT, 1>(of, groupSums); } \
  extern "C" __global__ __launch_bounds__(256, 2) void product_##NAME##_16(Product of, const uint2 *groupSums) { multiplyFewPacked<FORMAT, 2>(of, groupSums); }

FEW_PACKED(q8, Q8Packed)
FEW_PACKED(q4, Q4Packed)
FEW_PACKED(q6, Q6Packed)
