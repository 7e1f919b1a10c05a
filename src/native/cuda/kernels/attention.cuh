// Attention, forward, without the table of T × T shares: keys come tile by tile, the softmax is carried along, and of it
// only the logarithm of the sum is kept.
//
// Queries, keys and values lie in one row for each token: heads · LENGTH, keyHeads · LENGTH, keyHeads · LENGTH. A query
// sees two stretches of keys of its own row: start … end - 1, which is what all branches of its sequence begin with, and
// own … itself. None of the three falls from one token to the next, and end is at most own: what does not branch has
// its start as all three.
#pragma once
#include "common.cuh"

constexpr int ATTENTION_THREADS = 128; // four warps
constexpr int KEYS = 64;               // of a tile
constexpr float LOG2E = 1.4426950408889634f;
constexpr int NEVER = 0x7fffffff;

struct alignas(16) Seen {
  int start, end, own, unused;
  __device__ __forceinline__ bool hides(int key, int query) const { return key > query || key < start || (key >= end && key < own); }
};

// Keys from `first`, and one behind the last query that sees any of them.
struct KeyTile {
  int first, end;
};

struct Sight {
  const Seen *seen;
  const KeyTile *tiles; // for each row, those with the most queries first
  int heads, keyHeads, tokens;
  float scale;
};

// What a thread has of the sums: rows `group` and `group + 8`, columns 2 · quad and the next.
struct Lane {
  int warp, group, quad;
  __device__ Lane() : warp(threadIdx.x >> 5), group((threadIdx.x & 31) >> 2), quad(threadIdx.x & 3) {}
};

// Of a query that is not there.
__device__ __forceinline__ Seen seenBy(const Seen *seen, int query, int tokens) {
  if (query < tokens) return seen[query];
  return {NEVER, 0, NEVER, 0};
}

// Whether one of the queries from the first to the last does not see one of the keys from `key0`.
__device__ __forceinline__ bool hidesSome(const Seen &first, const Seen &last, int key0, int firstQuery) {
  const int lastKey = key0 + KEYS - 1;
  const bool inOwn = last.own <= key0 && lastKey <= firstQuery, inCommon = last.start <= key0 && lastKey < first.end;
  return !inOwn && !inCommon;
}

// The tiles of keys that some query of q0 … end - 1 sees: `ahead` of them from `first` on, the others from `second` on.
struct TilesSeen {
  int first, second, ahead, count;
  __device__ __forceinline__ TilesSeen(const Seen *seen, int q0, int end) {
    const Seen from = seen[q0];
    first = from.start / KEYS * KEYS, second = from.own / KEYS * KEYS;
    ahead = (min(max(seen[end - 1].end, first), second) - first + KEYS - 1) / KEYS;
    count = ahead + (end - second + KEYS - 1) / KEYS;
  }
  __device__ __forceinline__ int at(int tile) const { return tile < ahead ? first + tile * KEYS : second + (tile - ahead) * KEYS; }
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
  const Seen *seen = sight.seen + static_cast<size_t>(row) * T;
  const bf16 *base = qkv + static_cast<size_t>(row) * T * stride;
  const bf16 *keysFrom = base + (sight.heads + keyHead) * LENGTH;
  const bf16 *valuesFrom = keysFrom + sight.keyHeads * LENGTH;
  const TilesSeen tiles(seen, q0, min(q0 + QUERIES, T));
  const float toLog2 = sight.scale * LOG2E;

  const auto fetch = [&](int tile) {
    const int key0 = tiles.at(tile), stage = (tile & 1) * KEYS * LENGTH;
    loadTile<LENGTH, KEYS, ATTENTION_THREADS>(keys + stage, keysFrom + static_cast<size_t>(key0) * stride, stride, T - key0);
    loadTile<LENGTH, KEYS, ATTENTION_THREADS>(values + stage, valuesFrom + static_cast<size_t>(key0) * stride, stride, T - key0);
  };
  loadTile<LENGTH, QUERIES, ATTENTION_THREADS>(queries, base + static_cast<size_t>(q0) * stride + head * LENGTH, stride, T - q0);
  fetch(0);
  commitLoads();

  float sums[TILES][LENGTH / 8][4] = {};
  float top[TILES][2], total[TILES][2];
  const int warpRow = q0 + lane.warp * 16 * TILES;
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int r = 0; r < 2; r++) top[m][r] = -INFINITY, total[m][r] = 0;
  const Seen firstSees = seenBy(seen, warpRow, T), lastSees = seenBy(seen, warpRow + 16 * TILES - 1, T);

  for (int tile = 0; tile < tiles.count; tile++) {
    const int key0 = tiles.at(tile), stage = (tile & 1) * KEYS * LENGTH;
    if (tile + 1 < tiles.count) fetch(tile + 1);
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
    const bool masked = hidesSome(firstSees, lastSees, key0, warpRow);
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int query = warpRow + m * 16 + lane.group + 8 * r;
        if (masked) {
          const Seen sees = seenBy(seen, query, T);
#pragma unroll
          for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++)
              if (sees.hides(key0 + n * 8 + lane.quad * 2 + e, query)) scores[m][n][2 * r + e] = -INFINITY;
        }
        float highest = -INFINITY;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int e = 0; e < 2; e++) highest = fmaxf(highest, scores[m][n][2 * r + e]);
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
