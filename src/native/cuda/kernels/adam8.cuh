// AdamW whose moments are bytes: shares of the largest number of their block of 256, by the maps of adam8/map.ts. Products and
// sums are not joined, so that every operation rounds as the same one in block.ts.
#pragma once
#include "common.cuh"

constexpr int ADAM_BLOCK = 256;

__device__ __forceinline__ float blockMost(float x) {
  __shared__ float parts[ADAM_BLOCK / 32];
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, by));
  __syncthreads(); // of an earlier one
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = x;
  __syncthreads();
  for (int i = 0; i < ADAM_BLOCK / 32; i++) x = fmaxf(x, parts[i]);
  return x;
}

// How many of 255 edges lie below `share`.
__device__ __forceinline__ int codeOf(const float *edges, float share) {
  int code = 0;
#pragma unroll
  for (int step = ADAM_BLOCK / 2; step > 0; step >>= 1)
    if (share > edges[code + step - 1]) code += step;
  return code;
}

// One block for each 256 weights. `maps`: values and edges of the first moment, then of the second.
extern "C" __global__ void adam_8bit(float *weights, const float *gradient, uint8_t *first, float *firstMost, uint8_t *second, float *secondMost, const float *maps, float rate, float beta1, float rest1, float beta2, float rest2, float epsilon, float keep, float correction1, float correction2, float scale, int count) {
  __shared__ float own[4 * ADAM_BLOCK];
  for (int i = 0; i < 4; i++) own[i * ADAM_BLOCK + threadIdx.x] = maps[i * ADAM_BLOCK + threadIdx.x];
  __syncthreads();
  const float most1 = firstMost[blockIdx.x], most2 = secondMost[blockIdx.x];
  const size_t at = static_cast<size_t>(blockIdx.x) * ADAM_BLOCK + threadIdx.x;
  const bool inside = at < count;
  float m = 0, v = 0;
  if (inside) {
    const float g = __fmul_rn(gradient[at], scale);
    const float before1 = most1 == 0 ? 0 : __fmul_rn(own[first[at]], most1);
    const float before2 = most2 == 0 ? 0 : __fmul_rn(own[2 * ADAM_BLOCK + second[at]], most2);
    m = __fadd_rn(__fmul_rn(before1, beta1), __fmul_rn(g, rest1));
    v = __fadd_rn(__fmul_rn(before2, beta2), __fmul_rn(__fmul_rn(g, g), rest2));
    const float below = __fadd_rn(__fsqrt_rn(__fmul_rn(v, correction2)), epsilon);
    const float change = __fdiv_rn(__fmul_rn(rate, __fmul_rn(m, correction1)), below);
    weights[at] = __fadd_rn(__fmul_rn(weights[at], keep), -change);
  }
  const float now1 = blockMost(fabsf(m)), now2 = blockMost(v); // after it every thread has read the old ones
  if (threadIdx.x == 0) firstMost[blockIdx.x] = now1, secondMost[blockIdx.x] = now2;
  if (!inside) return;
  first[at] = codeOf(own + ADAM_BLOCK, now1 > 0 ? __fdiv_rn(m, now1) : 0);
  const int code = codeOf(own + 3 * ADAM_BLOCK, now2 > 0 ? __fdiv_rn(v, now2) : 0);
  second[at] = v > 0 && code == 0 ? 1 : code; // a step would be divided by zero
}
