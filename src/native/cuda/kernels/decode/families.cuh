// What only some families have: norms of results, another gate, limits of logits.
#pragma once
#include "rows.cuh"

// out = y · weight / rms(y), where y is the branch and what the row's adapter adds to it. One block for each row.
extern "C" __global__ void norm_branch(Branch branch, const float *weight, bf16 *out, int width, float epsilon, Adapters adapters) {
  __shared__ float sums[MOST_RANK];
  const Delta delta = adapters.deltaOf(blockIdx.x, 0);
  letNextBegin();
  waitForPrevious();
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  DYNAMIC_SHARED(rowMemory);
  float *kept = reinterpret_cast<float *>(rowMemory);
  if (delta.changes()) {
    for (int r = threadIdx.x; r < delta.ranks; r += blockDim.x) sums[r] = delta.sumOf(r);
    __syncthreads();
  }
  float squares = 0;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8];
    branch.eight(at + i, v);
    if (delta.changes()) addRanks(delta, sums, i, v);
#pragma unroll
    for (int k = 0; k < 8; k++) squares = fmaf(v[k], v[k], squares);
    putEightFloats(kept + i, v);
  }
  const float by = rsqrtf(blockSum(squares) / width + epsilon);
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8], w[8];
    eightFloats(kept + i, v);
    eightFloats(weight + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = v[k] * by * w[k];
    putEight(out + at + i, v);
  }
}

// out = gelu(gate) ⊙ up; a row of `both` has all gates, then all ups. Block y: the row; a thread has eight columns.
extern "C" __global__ void join_gelu(const bf16 *both, bf16 *out, int forward, int unused) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  letNextBegin();
  waitForPrevious();
  if (i >= forward) return;
  const bf16 *row = both + static_cast<size_t>(blockIdx.y) * 2 * forward;
  float g[8], u[8];
  unpack(eightAt(row + i), g);
  unpack(eightAt(row + forward + i), u);
#pragma unroll
  for (int k = 0; k < 8; k++) u[k] *= activated(g[k], GELU);
  putEight(out + static_cast<size_t>(blockIdx.y) * forward + i, u);
}

// Logits are limited to ± cap. Block y: the row.
extern "C" __global__ void cap_logits(float *logits, int stride, int vocab, float cap) {
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  letNextBegin();
  waitForPrevious();
  if (token >= vocab) return;
  float &logit = logits[static_cast<size_t>(blockIdx.y) * stride + token];
  logit = cap * (1 - 2 / (1 + __expf(2 * (logit / cap)))); // tanh
}
