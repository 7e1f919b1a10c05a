// Products of few tokens and quantized weights, which go from memory to registers. The warps of a block share its slices of
// sixteen rows.
#pragma once
#include "packed.cuh"

// NT tiles of eight tokens. AHEAD: units of a warp that are on their way at once; fewer of them leave room for more blocks.
template <class Format, int NT, int AHEAD = Format::AHEAD> __device__ __forceinline__ void multiplyFewPacked(const Product &of, const Ready &with) {
  constexpr int TOKENS = 8 * NT, PITCH = 20, NUMBERS = Format::NUMBERS, GROUPS = NUMBERS / 32;
  constexpr int TOGETHER = GROUPS * NT > 8 ? GROUPS / 2 : GROUPS; // groups whose tokens are on their way at once
  DYNAMIC_SHARED(shared);
  float *sums = reinterpret_cast<float *>(shared); // [slice][token][PITCH]
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, group = lane >> 2, quad = lane & 3;
  const int token0 = blockIdx.y * TOKENS;
  const uint8_t *tiles[2];
  tilesAt<Format>(tiles, of, blockIdx.x);
  int slice = of.slices * warp / warps;
  const int lastSlice = of.slices * (warp + 1) / warps;
  const auto startOf = [&](int at) { return packedStart<Format>(at, of.slices, of.depth); };
  const int first = startOf(slice), end = startOf(lastSlice);
  PackedUnit<Format> units[AHEAD];
#pragma unroll
  for (int u = 0; u < AHEAD; u++)
    if (first + u * NUMBERS < end) units[u].load(tiles, first + u * NUMBERS, lane);
  letNextBegin();
  waitForPrevious();

  float acc[NT][4] = {};
  int sliceEnd = startOf(slice + 1);
  const auto endSlice = [&] {
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) sums[(slice * TOKENS + n * 8 + quad * 2 + (e & 1)) * PITCH + group + (e >> 1) * 8] = acc[n][e], acc[n][e] = 0;
    sliceEnd = startOf(++slice + 1);
  };
  const uint16_t *x[NT]; // rows behind the last are the last once more
  const uint2 *xSums[NT];
#pragma unroll
  for (int n = 0; n < NT; n++) {
    const int row = min(token0 + group + 8 * n, of.count - 1);
    x[n] = with.halves + static_cast<size_t>(row) * of.xStride + quad * (Format::HALVES ? 4 : 8);
    xSums[n] = with.sums + static_cast<size_t>(row) * readyBlocks(of.depth) * 4 + quad;
  }
  const float *xScales = with.scales + token0 + quad * 2;
  for (int from = first; from < end; from += AHEAD * NUMBERS) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const int k = from + u * NUMBERS, block = k / READY_BLOCK;
      if (k >= end) break;
      while (sliceEnd <= k) endSlice();
      uint2 groupSums[NT] = {};
      float2 scales[NT];
      uint32_t right[TOGETHER][NT][4];
      const auto take = [&](int firstGroup) {
#pragma unroll
        for (int g = 0; g < TOGETHER; g++)
#pragma unroll
          for (int n = 0; n < NT; n++) {
            const uint16_t *at = x[n] + k + 32 * (firstGroup + g);
            if constexpr (Format::HALVES) takeHalves(right[g][n], at, at + 16);
            else takeRow(right[g][n], at);
          }
      };
      take(0);
#pragma unroll
      for (int n = 0; n < NT; n++) {
        if (Format::MINIMA) groupSums[n] = xSums[n][block * 4];
        scales[n] = *reinterpret_cast<const float2 *>(xScales + block * with.scaleStride + 8 * n);
      }
      UnitSums<Format, NT> unit(units[u], quad);
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        if (g == TOGETHER) take(TOGETHER);
        unit.addGroup(right[g % TOGETHER], g);
      }
      unit.addTo(acc, groupSums, scales);
      if (k + AHEAD * NUMBERS < end) units[u].load(tiles, k + AHEAD * NUMBERS, lane);
    }
  }
  while (slice < lastSlice) endSlice();
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

#define FEW_PACKED(NAME, FORMAT)                                                                                                              \
  extern "C" __global__ __launch_bounds__(256, 2) void product_##NAME##_8(Product of, Ready with) { multiplyFewPacked<FORMAT, 1>(of, with); }    \
  extern "C" __global__ __launch_bounds__(256, 3) void product_##NAME##_many(Product of, Ready with) { multiplyFewPacked<FORMAT, 1, FORMAT::AHEAD / 2>(of, with); } \
  extern "C" __global__ __launch_bounds__(256, 2) void product_##NAME##_16(Product of, Ready with) { multiplyFewPacked<FORMAT, 2>(of, with); }

FEW_PACKED(q8, Q8Packed)
FEW_PACKED(q4, Q4Packed)
FEW_PACKED(q6, Q6Packed)
