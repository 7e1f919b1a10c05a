// What attention of the trainer and exact attention of the sampler share, so that a token has the same bits in both. Where a
// sum follows a product, both are written out: the compiler could join them in one kernel and not in the other.
#pragma once
#include "common.cuh"

constexpr float LOG2E = 1.4426950408889634f;
constexpr int CARRIED_KEYS = 64; // of a tile; heads of 64 and 128

// Scores of row r (0: the lane's `group`, 1: `group` + 8) become shares of a softmax that is carried from tile to tile: what
// was summed before shrinks. `sums` are columns of the result so far.
template <int KEYS, int COLUMNS>
__device__ __forceinline__ void carryShares(float (&scores)[KEYS / 8][4], float (&sums)[COLUMNS / 8][4], int r, float toLog2, float &top, float &total) {
  float highest = -INFINITY;
#pragma unroll
  for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
    for (int e = 0; e < 2; e++) highest = fmaxf(highest, scores[n][2 * r + e]);
  highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
  highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2));
  const float now = fmaxf(top, highest * toLog2);
  const float safe = now == -INFINITY ? 0 : now; // nothing seen yet: -∞ minus -∞ is no number
  const float shrink = exp2f(top - safe);
  top = now;
  float sum = 0;
#pragma unroll
  for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float &score = scores[n][2 * r + e];
      score = exp2f(fmaf(score, toLog2, -safe));
      sum = __fadd_rn(sum, score);
    }
  total = fmaf(total, shrink, sum);
#pragma unroll
  for (int n = 0; n < COLUMNS / 8; n++) sums[n][2 * r] *= shrink, sums[n][2 * r + 1] *= shrink;
}

// A pair of a head, turned by its position.
__device__ __forceinline__ float2 turnedPair(float x, float y, const float2 &turn) {
  return make_float2(fmaf(x, turn.x, -__fmul_rn(y, turn.y)), fmaf(x, turn.y, __fmul_rn(y, turn.x)));
}
