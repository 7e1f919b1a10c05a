// Attention, forward, without the table of T × T shares: keys come tile by tile, the softmax is carried along, and of it
// only the logarithm of the sum is kept.
//
// Queries, keys and values lie in one row for each token: heads · LENGTH, keyHeads · LENGTH, keyHeads · LENGTH. A query
// sees the keys start[query] … query of its own row, and start never falls from one token to the next.
#pragma once
#include "common.cuh"

constexpr int ATTENTION_THREADS = 128; // four warps
constexpr int KEYS = 64;               // of a tile
constexpr float LOG2E = 1.4426950408889634f;
constexpr int NEVER = 0x7fffffff;

struct Sight {
  const int *start;
  int heads, keyHeads, tokens;
  float scale;
};

// What a thread has of the sums: rows `group` and `group + 8`, columns 2 · quad and the next.
struct Lane {
  int warp, group, quad;
  __device__ Lane() : warp(threadIdx.x >> 5), group((threadIdx.x & 31) >> 2), quad(threadIdx.x & 3) {}
};

// TILES: sixteen rows each, for one warp.
template <int LENGTH, int TILES>
__device__ __forceinline__ void attendForward(const bf16 *qkv, int stride, bf16 *out, int outStride, float *lse, const Sight &sight) {
  constexpr int QUERIES = 64 * TILES;
  extern __shared__ __align__(128) char shared[];
  bf16 *queries = reinterpret_cast<bf16 *>(shared);
  bf16 *keys = queries + QUERIES * LENGTH, *values = keys + 2 * KEYS * LENGTH;

  const Lane lane;
  const int T = sight.tokens, head = blockIdx.y, row = blockIdx.z;
  const int q0 = (gridDim.x - 1 - blockIdx.x) * QUERIES; // the longest first
  const int keyHead = head / (sight.heads / sight.keyHeads);
  const int *start = sight.start + static_cast<size_t>(row) * T;
  const bf16 *base = qkv + static_cast<size_t>(row) * T * stride;
  const bf16 *keysFrom = base + (sight.heads + keyHead) * LENGTH;
  const bf16 *valuesFrom = keysFrom + sight.keyHeads * LENGTH;
  const int first = start[q0] / KEYS * KEYS, end = min(q0 + QUERIES, T);
  const int tiles = (end - first + KEYS - 1) / KEYS;
  const float toLog2 = sight.scale * LOG2E;

  const auto fetch = [&](int tile) {
    const int key0 = first + tile * KEYS, stage = (tile & 1) * KEYS * LENGTH;
    loadTile<LENGTH, KEYS, ATTENTION_THREADS>(keys + stage, keysFrom + static_cast<size_t>(key0) * stride, stride, T - key0);
    loadTile<LENGTH, KEYS, ATTENTION_THREADS>(values + stage, valuesFrom + static_cast<size_t>(key0) * stride, stride, T - key0);
  };
  loadTile<LENGTH, QUERIES, ATTENTION_THREADS>(queries, base + static_cast<size_t>(q0) * stride + head * LENGTH, stride, T - q0);
  fetch(0);
  commitLoads();

  float sums[TILES][LENGTH / 8][4] = {};
  float top[TILES][2], total[TILES][2];
  int from[TILES][2];
  const int warpRow = q0 + lane.warp * 16 * TILES;
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int query = warpRow + m * 16 + lane.group + 8 * r;
      top[m][r] = -INFINITY, total[m][r] = 0;
      from[m][r] = query < T ? start[query] : NEVER;
    }
  const int lastRow = warpRow + 16 * TILES - 1;
  const int lastStart = lastRow < T ? start[lastRow] : NEVER;

  for (int tile = 0; tile < tiles; tile++) {
    const int key0 = first + tile * KEYS, stage = (tile & 1) * KEYS * LENGTH;
    if (tile + 1 < tiles) fetch(tile + 1);
    commitLoads();
    waitForLoads<1>();
    __syncthreads();

    float scores[TILES][KEYS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < LENGTH; k += 16) {
      uint32_t left[TILES][4];
#pragma unroll
      for (int m = 0; m < TILES; m++) leftOf<LENGTH>(left[m], queries, lane.warp * 16 * TILES + m * 16, k);
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        uint32_t right[4];
        rightOfRows<LENGTH>(right, keys + stage, n * 16, k);
#pragma unroll
        for (int m = 0; m < TILES; m++) {
          multiply(scores[m][2 * n], left[m], right[0], right[1]);
          multiply(scores[m][2 * n + 1], left[m], right[2], right[3]);
        }
      }
    }
    const bool masked = key0 + KEYS - 1 > warpRow || key0 < lastStart;
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int query = warpRow + m * 16 + lane.group + 8 * r;
        float highest = -INFINITY;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float &score = scores[m][n][2 * r + e];
            const int key = key0 + n * 8 + lane.quad * 2 + e;
            if (masked && (key > query || key < from[m][r])) score = -INFINITY;
            highest = fmaxf(highest, score);
          }
        highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2));
        const float now = fmaxf(top[m][r], highest * toLog2);
        const float safe = now == -INFINITY ? 0 : now; // nothing seen yet: -∞ minus -∞ is no number
        const float shrink = exp2f(top[m][r] - safe);
        top[m][r] = now;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float &score = scores[m][n][2 * r + e];
            score = exp2f(score * toLog2 - safe);
            sum += score;
          }
        total[m][r] = total[m][r] * shrink + sum;
#pragma unroll
        for (int n = 0; n < LENGTH / 8; n++) sums[m][n][2 * r] *= shrink, sums[m][n][2 * r + 1] *= shrink;
      }
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      uint32_t left[TILES][4];
#pragma unroll
      for (int m = 0; m < TILES; m++) leftOfSums(left[m], scores[m][2 * k], scores[m][2 * k + 1]);
#pragma unroll
      for (int n = 0; n < LENGTH / 16; n++) {
        uint32_t right[4];
        rightOfColumns<LENGTH>(right, values + stage, k * 16, n * 16);
#pragma unroll
        for (int m = 0; m < TILES; m++) {
          multiply(sums[m][2 * n], left[m], right[0], right[1]);
          multiply(sums[m][2 * n + 1], left[m], right[2], right[3]);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int query = warpRow + m * 16 + lane.group + 8 * r;
      float sum = total[m][r];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (query >= T) continue;
      const float by = 1 / sum;
      bf16 *to = out + (static_cast<size_t>(row) * T + query) * outStride + head * LENGTH;
#pragma unroll
      for (int n = 0; n < LENGTH / 8; n++)
        *reinterpret_cast<uint32_t *>(to + n * 8 + lane.quad * 2) = pairOf(sums[m][n][2 * r] * by, sums[m][n][2 * r + 1] * by);
      if (lane.quad == 0) lse[(static_cast<size_t>(row) * sight.heads + head) * T + query] = top[m][r] + log2f(sum);
    }
}
