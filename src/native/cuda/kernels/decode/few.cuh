// Products of few tokens and large weights: the weights go from memory to the tensor cores' left operand without shared
// memory, the tokens are the right one. Each warp of a block sums one slice.
#pragma once
#include "adapters.cuh"
#include "product.cuh"

// MT tiles of sixteen rows, NT tiles of eight tokens. A block has a warp for each slice. DEEP: more weights are on their way
// at once, which pays where few blocks read long rows. The first blocks sum what adapters add to the result.
template <class Format, int MT, int NT, bool DEEP = false> __device__ __forceinline__ void multiplyFew(const Product &of, const Adapters &adapters) {
  constexpr int ROWS = 16 * MT, TOKENS = 8 * NT, AHEAD = DEEP ? 8 : MT == 1 ? 4 : 2, PITCH = ROWS + 4;
  DYNAMIC_SHARED(shared);
  float *sums = reinterpret_cast<float *>(shared); // [slice][token][PITCH]
  const int ahead = adapters.blocks();
  if (static_cast<int>(blockIdx.x) < ahead) {
    if (blockIdx.y == 0) sumRanks(adapters, blockIdx.x, of.x, of.xStride, of.depth, of.slices, sums);
    return;
  }
  const int lane = threadIdx.x & 31, slice = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int tile0 = (blockIdx.x - ahead) * MT, token0 = blockIdx.y * TOKENS;
  const uint8_t *rows[MT][2];
#pragma unroll
  for (int m = 0; m < MT; m++)
#pragma unroll
    for (int h = 0; h < 2; h++) rows[m][h] = of.rowAt<Format>(tile0 + m, group + 8 * h);
  const bf16 *x = of.x + static_cast<size_t>(token0 + group) * of.xStride;
  const int end = min(sliceStart(slice + 1, of.slices, of.depth), of.depth);

  LeftRows left[2][AHEAD][MT]; // one part is multiplied while the next is on its way
  const auto fetch = [&](LeftRows (&to)[AHEAD][MT], int step) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const int k = step + 32 * u + quad * 8;
#pragma unroll
      for (int m = 0; m < MT; m++) {
        if (k < end) {
          Format::eight(to[u][m].low, rows[m][0], k);
          Format::eight(to[u][m].high, rows[m][1], k);
        } else {
          takeNothing(to[u][m].low);
          takeNothing(to[u][m].high);
        }
      }
    }
  };
  float acc[MT][NT][4] = {};
  // The tokens of a whole step are on their way at once: each wait for them would cost as much as the products of a step.
  // What lies behind the end is zero and adds nothing.
  const auto add = [&](const LeftRows (&from)[AHEAD][MT], int step) {
    constexpr int TOGETHER = NT > 4 ? 1 : AHEAD;
#pragma unroll
    for (int first = 0; first < AHEAD; first += TOGETHER) {
      uint32_t right[TOGETHER][NT][4];
#pragma unroll
      for (int u = 0; u < TOGETHER; u++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
          const int k = step + 32 * (first + u) + quad * 8;
          if (k < end) takeRow(right[u][n], x + static_cast<size_t>(n) * 8 * of.xStride + k);
          else takeNothing(right[u][n]);
        }
#pragma unroll
      for (int u = 0; u < TOGETHER; u++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
          for (int m = 0; m < MT; m++) from[first + u][m].multiplyInto(acc[m][n], right[u][n]);
    }
  };
  constexpr int STEP = 32 * AHEAD;
  int step = sliceStart(slice, of.slices, of.depth);
  fetch(left[0], step);
  letNextBegin();
  waitForPrevious();
  for (; step < end; step += 2 * STEP) {
    fetch(left[1], step + STEP);
    add(left[0], step);
    fetch(left[0], step + 2 * STEP);
    add(left[1], step + STEP);
  }
#pragma unroll
  for (int m = 0; m < MT; m++)
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        sums[(slice * TOKENS + n * 8 + quad * 2 + (e & 1)) * PITCH + m * 16 + group + (e >> 1) * 8] = acc[m][n][e];
  __syncthreads();

  const auto sumOf = [&](int token, int row) {
    float sum = sums[token * PITCH + row];
    for (int s = 1; s < of.slices; s++) sum += sums[(s * TOKENS + token) * PITCH + row];
    return sum;
  };
  const int valid = min(TOKENS, of.count - token0);
  if (of.mode == GATED) {
    for (int i = threadIdx.x; i < valid * ROWS / 2; i += blockDim.x) {
      const int token = i / (ROWS / 2), local = i % (ROWS / 2), row = tile0 * 8 + local, at = (local >> 3) * 16 + (local & 7);
      if (row < of.rows / 2) of.putGated(token0 + token, row, sumOf(token, at), sumOf(token, at + 8));
    }
    return;
  }
  for (int i = threadIdx.x; i < valid * ROWS; i += blockDim.x) {
    const int token = i / ROWS, local = i % ROWS, row = tile0 * 16 + local;
    if (row < of.rows) of.put(token0 + token, row, sumOf(token, local));
  }
}

#define FEW(NAME, FORMAT)                                                                                              \
  extern "C" __global__ __launch_bounds__(256) void product_##NAME##_8(Product of, Adapters with) { multiplyFew<FORMAT, 1, 1>(of, with); }  \
  extern "C" __global__ __launch_bounds__(256) void product_##NAME##_16(Product of, Adapters with) { multiplyFew<FORMAT, 1, 2>(of, with); } \
  extern "C" __global__ __launch_bounds__(256) void product_##NAME##_32(Product of, Adapters with) { multiplyFew<FORMAT, 1, 4>(of, with); } \
  extern "C" __global__ __launch_bounds__(256) void product_##NAME##_64(Product of, Adapters with) { multiplyFew<FORMAT, 2, 8>(of, with); }

FEW(bf16, Bf16Rows)
extern "C" __global__ __launch_bounds__(256) void product_bf16_deep(Product of, Adapters with) { multiplyFew<Bf16Rows, 1, 1, true>(of, with); }
