// The same products for many tokens, of BF16 weights: tiles of both sides in shared memory, three stages deep. Operands
// and sums have the order of few.cuh, so that both give the same bits.
#pragma once
#include "product.cuh"

constexpr int STAGES = 3;

// Pieces of sixteen bytes of odd rows change halves: two rows of 64 bytes that eight lanes read lie in different banks.
__device__ __forceinline__ int tilePlace(int row, int piece) { return row * UNIT + ((piece ^ ((row & 1) << 2)) << 3); }

// BM rows of weights and BN tokens; the warps form a grid of WM × WN. Block z is a slice if the results are PARTS.
template <int BM, int BN, int WM, int WN> __device__ __forceinline__ void multiplyTiles(const Product &of) {
  constexpr int THREADS = WM * WN * 32, MT = BM / WM / 16, NT = BN / WN / 8, STAGE = (BM + BN) * UNIT;
  constexpr int LEFT = BM * 8 / THREADS, RIGHT = BN * 8 / THREADS, STEP = THREADS / 8;
  DYNAMIC_SHARED(shared);
  bf16 *tiles = reinterpret_cast<bf16 *>(shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int warpRow = warp / WN * (BM / WM), warpToken = warp % WN * (BN / WN);
  const int tile0 = blockIdx.x * (BM / 16), token0 = blockIdx.y * BN;

  const int piece = threadIdx.x & 7, row0 = threadIdx.x >> 3;
  const uint8_t *lefts[LEFT];
#pragma unroll
  for (int i = 0; i < LEFT; i++) lefts[i] = of.rowAt<Bf16Rows>(tile0 + (row0 + i * STEP) / 16, (row0 + i * STEP) % 16);
  const bf16 *rights = of.x + static_cast<size_t>(token0 + row0) * of.xStride;
  const auto fetchLeft = [&](int unit) {
    bf16 *stage = tiles + unit % STAGES * STAGE;
    const int k = unit * UNIT + piece * 8;
    const bool inside = k < of.depth;
    const int from = inside ? k : 0;
#pragma unroll
    for (int i = 0; i < LEFT; i++) copySixteen(stage + tilePlace(row0 + i * STEP, piece), lefts[i] + static_cast<size_t>(from) * 2, inside);
  };
  const auto fetchRight = [&](int unit) {
    bf16 *stage = tiles + unit % STAGES * STAGE;
    const int k = unit * UNIT + piece * 8;
    const bool inside = k < of.depth;
    const int from = inside ? k : 0;
#pragma unroll
    for (int i = 0; i < RIGHT; i++)
      copySixteen(stage + BM * UNIT + tilePlace(row0 + i * STEP, piece), rights + static_cast<size_t>(i) * STEP * of.xStride + from, inside);
  };

  const bool alone = of.mode == PARTS;
  int slice = alone ? blockIdx.z : 0;
  const int first = sliceStart(slice, of.slices, of.depth) / UNIT;
  const int last = sliceStart(alone ? slice + 1 : of.slices, of.slices, of.depth) / UNIT;
  int sliceEnd = sliceStart(slice + 1, of.slices, of.depth) / UNIT;
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++)
    if (first + s < last) fetchLeft(first + s);
  letNextBegin();
  waitForPrevious();
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (first + s < last) fetchRight(first + s);
    commitLoads();
  }
  float acc[MT][NT][4] = {}, total[MT][NT][4] = {};
  for (int unit = first; unit < last; unit++) {
    waitForLoads<STAGES - 2>();
    __syncthreads(); // this stage is there, and the one before is no longer read
    if (unit + STAGES - 1 < last) fetchLeft(unit + STAGES - 1), fetchRight(unit + STAGES - 1);
    commitLoads();
    const bf16 *left = tiles + unit % STAGES * STAGE, *right = left + BM * UNIT;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t tokens[NT][4];
#pragma unroll
      for (int n = 0; n < NT; n++) takeRow(tokens[n], right + tilePlace(warpToken + n * 8 + group, half * 4 + quad));
#pragma unroll
      for (int m = 0; m < MT; m++) {
        LeftRows rows;
        takeRow(rows.low, left + tilePlace(warpRow + m * 16 + group, half * 4 + quad));
        takeRow(rows.high, left + tilePlace(warpRow + m * 16 + group + 8, half * 4 + quad));
#pragma unroll
        for (int n = 0; n < NT; n++) rows.multiplyInto(acc[m][n], tokens[n]);
      }
    }
    if (unit + 1 < sliceEnd) continue;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) total[m][n][e] += acc[m][n][e], acc[m][n][e] = 0;
    if (unit + 1 == last) break;
    do sliceEnd = sliceStart(++slice + 1, of.slices, of.depth) / UNIT;
    while (sliceEnd <= unit + 1); // a slice without a unit
  }

  Product to = of;
  if (alone) to.out = static_cast<float *>(of.out) + static_cast<size_t>(blockIdx.z) * of.sliceStride;
#pragma unroll
  for (int m = 0; m < MT; m++)
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int token = token0 + warpToken + n * 8 + quad * 2 + e, tile = tile0 + warpRow / 16 + m;
        if (token >= of.count) continue;
        if (of.mode == GATED) {
          if (tile * 8 + group < of.rows / 2) to.putGated(token, tile * 8 + group, total[m][n][e], total[m][n][e + 2]);
          continue;
        }
        if (tile * 16 + group < of.rows) to.put(token, tile * 16 + group, total[m][n][e]);
        if (tile * 16 + group + 8 < of.rows) to.put(token, tile * 16 + group + 8, total[m][n][e + 2]);
      }
}

extern "C" __global__ __launch_bounds__(128, 3) void product_tiles_64(Product of) { multiplyTiles<64, 64, 2, 2>(of); }
extern "C" __global__ __launch_bounds__(256, 1) void product_tiles_128(Product of) { multiplyTiles<128, 128, 2, 4>(of); }
