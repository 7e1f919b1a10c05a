// The products of few_packed.cuh for more tokens: a warp has sixteen rows as there, and all warps share tokens in shared
// memory, three stages deep. Groups and slices are summed in the same order, so that both give the same bits.
#pragma once
#include "packed.cuh"
#include "tiles.cuh"

constexpr int PACKED_WARPS = 4, PACKED_STAGES = 2;

// Block z is a slice if the results are PARTS.
template <class Format, int NT> __device__ __forceinline__ void multiplyTilesPacked(const Product &of, const uint2 *groupSums) {
  using Rows = PackedRows<Format>;
  constexpr int TOKENS = 8 * NT, STAGE = TOKENS * UNIT, STEP = PACKED_WARPS * 4;
  DYNAMIC_SHARED(shared);
  bf16 *tokens = reinterpret_cast<bf16 *>(shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int tile = blockIdx.x * PACKED_WARPS + warp, token0 = blockIdx.y * TOKENS;
  char *stages = shared + STAGES * STAGE * sizeof(bf16) + warp * PACKED_STAGES * Rows::STAGE_BYTES;
  const Rows rows{{of.rowAt<Format>(tile, group), of.rowAt<Format>(tile, group + 8)}, group, quad};

  const int piece = threadIdx.x & 7, row0 = threadIdx.x >> 3;
  const bf16 *rights = of.x + static_cast<size_t>(token0 + row0) * of.xStride + piece * 8;
  const bool alone = of.mode == PARTS;
  int slice = alone ? blockIdx.z : 0;
  const int first = packedStart<Format>(slice, of.slices, of.depth);
  const int last = alone ? packedStart<Format>(slice + 1, of.slices, of.depth) : of.depth;
  const auto fetchTokens = [&](int k) {
    if (k < last) {
      bf16 *stage = tokens + k / UNIT % STAGES * STAGE;
#pragma unroll
      for (int i = 0; i < TOKENS / STEP; i++)
        copySixteen(stage + tilePlace(row0 + i * STEP, piece), rights + static_cast<size_t>(i) * STEP * of.xStride + k, true);
    }
    commitLoads();
  };
  const auto endOf = [&](int at) { return packedStart<Format>(at + 1, of.slices, of.depth); };
  while (first < last && endOf(slice) <= first) slice++; // slices without a unit
  int sliceEnd = endOf(slice), stage = 0;
  if (first < last) rows.fetch(stages, first, min(first + Rows::NUMBERS, sliceEnd));
  letNextBegin();
  waitForPrevious();
  fetchTokens(first);
  fetchTokens(first + UNIT);

  float acc[NT][4] = {}, total[NT][4] = {};
  bool brief = true; // the unit before had one step, so that what was fetched in it may be on its way
  for (int k = first; k < last;) {
    const int end = min(k + Rows::NUMBERS, sliceEnd);
    if (brief) waitForLoads<0>();
    uint2 minima[NT];
    if constexpr (Format::MINIMA) {
#pragma unroll
      for (int n = 0; n < NT; n++) minima[n] = groupSums[((static_cast<size_t>(token0 + group + 8 * n) * of.depth + k) >> 6) + quad];
    }
    int nextSlice = slice, nextEnd = sliceEnd;
    if (end == sliceEnd && end < last) do nextEnd = endOf(++nextSlice);
      while (nextEnd <= end);
    waitForLoads<STAGES - 2>();
    __syncthreads(); // the first step of this unit is there, and the step before is no longer read
    const PackedUnit<Format> unit(rows, stages + stage * Rows::STAGE_BYTES, k);
    stage ^= 1;
    if (end < last) rows.fetch(stages + stage * Rows::STAGE_BYTES, end, min(end + Rows::NUMBERS, nextEnd));
#pragma unroll
    for (int step = 0; step < Format::GROUPS / 2; step++) {
      const int at = k + step * UNIT;
      if (at >= end) break;
      if (step > 0) {
        waitForLoads<STAGES - 2>();
        __syncthreads();
      }
      fetchTokens(at + 2 * UNIT);
      const bf16 *from = tokens + at / UNIT % STAGES * STAGE;
#pragma unroll
      for (int half = 0; half < 2; half++) {
        uint32_t right[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++) {
          const int row = n * 8 + group;
          if constexpr (Format::HALVES) {
            const bf16 *low = from + tilePlace(row, half * 4 + (quad >> 1)), *high = from + tilePlace(row, half * 4 + 2 + (quad >> 1));
            takeHalves(right[n], low + (quad & 1) * 4, high + (quad & 1) * 4);
          } else takeRow(right[n], from + tilePlace(row, half * 4 + quad));
        }
        unit.addGroup(acc, right, 2 * step + half, quad);
      }
    }
    unit.addMinima(acc, minima);
    brief = end - k <= UNIT;
    if (end == sliceEnd) {
#pragma unroll
      for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) total[n][e] += acc[n][e], acc[n][e] = 0;
    }
    slice = nextSlice, sliceEnd = nextEnd, k = end;
  }

  Product to = of;
  if (alone) to.out = static_cast<float *>(of.out) + static_cast<size_t>(blockIdx.z) * of.sliceStride;
#pragma unroll
  for (int n = 0; n < NT; n++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int token = token0 + n * 8 + quad * 2 + e;
      if (token >= of.count) continue;
      if (of.mode == GATED) {
        if (tile * 8 + group < of.rows / 2) to.putGated(token, tile * 8 + group, total[n][e], total[n][e + 2]);
        continue;
      }
      if (tile * 16 + group < of.rows) to.put(token, tile * 16 + group, total[n][e]);
      if (tile * 16 + group + 8 < of.rows) to.put(token, tile * 16 + group + 8, total[n][e + 2]);
    }
}

#define TILES_PACKED(NAME, FORMAT)                                                                                                                               \
  extern "C" __global__ __launch_bounds__(128, 4) void product_##NAME##_packed_32(Product of, const uint2 *groupSums) { multiplyTilesPacked<FORMAT, 4>(of, groupSums); } \
  extern "C" __global__ __launch_bounds__(128, 3) void product_##NAME##_packed_64(Product of, const uint2 *groupSums) { multiplyTilesPacked<FORMAT, 8>(of, groupSums); }

TILES_PACKED(q8, Q8Packed)
TILES_PACKED(q4, Q4Packed)
TILES_PACKED(q6, Q6Packed)
