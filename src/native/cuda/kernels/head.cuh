// Log-probabilities of targets, and where the way back begins.
#pragma once
#include "common.cuh"

// Of each row: the target's log-probability; where `entropies` is given, -Σ p·log p; where `shares` is given, p - 1 at the
// target and p elsewhere. One block for each row.
extern "C" __global__ void target_logps(const float *logits, int stride, const int *targets, float *logps, float *entropies, bf16 *shares, int shareStride, int vocab) {
  const float *row = logits + static_cast<size_t>(blockIdx.x) * stride;
  const int target = targets[blockIdx.x], whole = vocab / 8 * 8;
  float top = -INFINITY, sum = 0, weighted = 0;
  const auto take = [&](float x) {
    if (x > top) {
      const float shrink = __expf(top - x);
      sum = __fmul_rn(sum, shrink), weighted *= shrink, top = x; // as the sampler: no joint rounding with the next share
    }
    const float share = __expf(x - top);
    sum += share, weighted += share * x;
  };
  for (int i = threadIdx.x * 8; i < whole; i += blockDim.x * 8) {
    float v[8];
    eightFloats(row + i, v);
#pragma unroll
    for (int k = 0; k < 8; k++) take(v[k]);
  }
  for (int i = whole + threadIdx.x; i < vocab; i += blockDim.x) take(row[i]);

  __shared__ float tops[32];
  float highest = top;
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, by));
  if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = highest;
  __syncthreads();
  for (int i = 0; i < (blockDim.x + 31) / 32; i++) highest = fmaxf(highest, tops[i]);
  const float shrink = top == -INFINITY ? 0 : __expf(top - highest);
  const float total = blockSum(__fmul_rn(sum, shrink)), all = highest + logf(total);
  if (threadIdx.x == 0) logps[blockIdx.x] = target < 0 ? 0 : row[target] - all;
  if (entropies != nullptr) {
    const float mean = blockSum(weighted * shrink) / total;
    if (threadIdx.x == 0) entropies[blockIdx.x] = all - mean;
  }
  if (shares == nullptr) return;
  bf16 *to = shares + static_cast<size_t>(blockIdx.x) * shareStride;
  for (int i = threadIdx.x * 8; i < whole; i += blockDim.x * 8) {
    float v[8];
    eightFloats(row + i, v);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = __expf(v[k] - all) - (i + k == target ? 1 : 0);
    putEight(to + i, v);
  }
  for (int i = whole + threadIdx.x; i < vocab; i += blockDim.x) to[i] = __float2bfloat16(__expf(row[i] - all) - (i == target ? 1 : 0));
}
