// The products of few_packed.cuh for more tokens: a warp has sixteen rows as there, and all warps share tokens in shared
// memory, three stages deep. Units and slices are summed in the same order, so that both give the same bits.
#pragma once
#include "packed.cuh"
#include "tiles.cuh"

// Block z is a slice if the results are PARTS.
template <class Format, int NT, int WARPS> __device__ __forceinline__ void multiplyTilesPacked(const Product &of, const Ready &with) {
  constexpr int TOKENS = 8 * NT, STAGE = TOKENS * UNIT, STEP = WARPS * 4, AHEAD = Format::AHEAD, NUMBERS = Format::NUMBERS;
  DYNAMIC_SHARED(shared);
  uint16_t *tokens = reinterpret_cast<uint16_t *>(shared);
  float *totals = reinterpret_cast<float *>(shared + STAGES * STAGE * sizeof(uint16_t)) + threadIdx.x; // of slices: [number of the thread][thread]
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int tile = blockIdx.x * WARPS + warp, token0 = blockIdx.y * TOKENS;
  const uint8_t *tiles[2];
  tilesAt<Format>(tiles, of, tile);

  const int piece = threadIdx.x & 7, row0 = threadIdx.x >> 3;
  const uint16_t *rights = with.halves + static_cast<size_t>(token0 + row0) * of.xStride + piece * 8;
  const bool alone = of.mode == PARTS;
  int slice = alone ? blockIdx.z : 0;
  const auto startOf = [&](int at) { return packedStart<Format>(at, of.slices, of.depth); };
  const int first = startOf(slice), last = alone ? startOf(slice + 1) : of.depth;
  int sliceEnd = startOf(slice + 1);
  const auto fetchTokens = [&](int k) {
    if (k < last) {
      uint16_t *stage = tokens + k / UNIT % STAGES * STAGE;
#pragma unroll
      for (int i = 0; i < TOKENS / STEP; i++)
        copySixteen(stage + tilePlace(row0 + i * STEP, piece), rights + static_cast<size_t>(i) * STEP * of.xStride + k, true);
    }
    commitLoads();
  };
  PackedUnit<Format> units[AHEAD];
#pragma unroll
  for (int u = 0; u < AHEAD; u++)
    if (first + u * NUMBERS < last) units[u].load(tiles, first + u * NUMBERS, lane);
  letNextBegin();
  waitForPrevious();
  fetchTokens(first);
  fetchTokens(first + UNIT);

  float acc[NT][4] = {};
  if (!alone) {
#pragma unroll
    for (int i = 0; i < NT * 4; i++) totals[i * WARPS * 32] = 0;
  }
  const int blocks = readyBlocks(of.depth);
  for (int from = first; from < last; from += AHEAD * NUMBERS) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const int k = from + u * NUMBERS, block = k / READY_BLOCK;
      if (k >= last) break;
      UnitSums<Format, NT> unit(units[u], quad);
#pragma unroll
      for (int step = 0; step < NUMBERS / UNIT; step++) {
        const int at = k + step * UNIT;
        waitForLoads<STAGES - 2>();
        __syncthreads(); // this step is there, and the step before is no longer read
        fetchTokens(at + 2 * UNIT);
        const uint16_t *stage = tokens + at / UNIT % STAGES * STAGE;
#pragma unroll
        for (int half = 0; half < 2; half++) {
          uint32_t right[NT][4];
#pragma unroll
          for (int n = 0; n < NT; n++) {
            const int row = n * 8 + group;
            if constexpr (Format::HALVES) {
              const uint16_t *low = stage + tilePlace(row, half * 4 + (quad >> 1)), *high = stage + tilePlace(row, half * 4 + 2 + (quad >> 1));
              takeHalves(right[n], low + (quad & 1) * 4, high + (quad & 1) * 4);
            } else takeRow(right[n], stage + tilePlace(row, half * 4 + quad));
          }
          unit.addGroup(right, 2 * step + half);
        }
      }
      uint2 groupSums[NT] = {};
      float2 scales[NT];
#pragma unroll
      for (int n = 0; n < NT; n++) {
        const int token = token0 + 8 * n;
        if constexpr (Format::MINIMA) groupSums[n] = with.sums[(static_cast<size_t>(token + group) * blocks + block) * 4 + quad];
        scales[n] = *reinterpret_cast<const float2 *>(with.scales + static_cast<size_t>(block) * with.scaleStride + token + quad * 2);
      }
      unit.addTo(acc, groupSums, scales);
      if (k + AHEAD * NUMBERS < last) units[u].load(tiles, k + AHEAD * NUMBERS, lane);
      if (alone || sliceEnd > k + NUMBERS) continue;
#pragma unroll
      for (int i = 0; i < NT * 4; i++) totals[i * WARPS * 32] += acc[i >> 2][i & 3], acc[i >> 2][i & 3] = 0;
      while (slice < of.slices && sliceEnd <= k + NUMBERS) sliceEnd = startOf(++slice + 1);
    }
  }

  Product to = of;
  if (alone) to.out = static_cast<float *>(of.out) + static_cast<size_t>(blockIdx.z) * of.sliceStride;
  const auto total = [&](int n, int e) { return alone ? acc[n][e] : totals[(n * 4 + e) * WARPS * 32]; };
#pragma unroll
  for (int n = 0; n < NT; n++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int token = token0 + n * 8 + quad * 2 + e;
      if (token >= of.count) continue;
      if (of.mode == GATED) {
        if (tile * 8 + group < of.rows / 2) to.putGated(token, tile * 8 + group, total(n, e), total(n, e + 2));
        continue;
      }
      if (tile * 16 + group < of.rows) to.put(token, tile * 16 + group, total(n, e));
      if (tile * 16 + group + 8 < of.rows) to.put(token, tile * 16 + group + 8, total(n, e + 2));
    }
}

#define TILES_PACKED(NAME, FORMAT)                                                                                                                               \
  extern "C" __global__ __launch_bounds__(128, 4) void product_##NAME##_packed_32(Product of, Ready with) { multiplyTilesPacked<FORMAT, 4, 4>(of, with); }

TILES_PACKED(q8, Q8Packed)
TILES_PACKED(q4, Q4Packed)
TILES_PACKED(q6, Q6Packed)
