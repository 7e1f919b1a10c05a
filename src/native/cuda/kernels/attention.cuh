// Attention, forward, without the table of T × T shares: keys come tile by tile, the softmax is carried along, and of it
// only the logarithm of the sum is kept.
//
// Queries, keys and values lie in one row for each token: heads · LENGTH, keyHeads · LENGTH, keyHeads · LENGTH. A query
// sees two stretches of keys of its own row: start … end - 1, which is what all branches of its sequence begin with, and
// own … itself. None of the three falls from one token to the next, and end is at most own: what does not branch has
// its start as all three.
//
// Where LIMITS is set, scores can be limited to ±cap, and a query sees only the last positions of its window: positions
// count from the start of the sequence, and a branch goes on where the common beginning ends.
#pragma once
#include "carried.cuh"
#include "decode/device.cuh"

constexpr int ATTENTION_THREADS = 128; // four warps
constexpr int TILE_KEYS = 64;          // of a block that computes gradients of keys
constexpr int NEVER = 0x7fffffff;

struct alignas(16) Seen {
  int start, end, own, unused;
  __device__ __forceinline__ bool hides(int key, int query) const { return key > query || key < start || (key >= end && key < own); }
  __device__ __forceinline__ bool hides(int key, int query, int window) const {
    return hides(key, query) || (key >= own ? query - key : query - own + end - key) >= window;
  }
};

// Rows of twelve pieces: the last four are exchanged among themselves.
template <> __device__ __forceinline__ int placeOf<96>(int row, int piece) { return row * 96 + ((piece ^ (row & (piece < 8 ? 7 : 3))) << 3); }

// Keys from `first`, and one behind the last query that sees any of them.
struct KeyTile {
  int first, end;
};

struct Sight {
  const Seen *seen;
  const KeyTile *tiles; // for each row, those with the most queries first
  int heads, keyHeads, tokens;
  float scale;
  int window; // positions that a query sees, with itself; NEVER: all
  float cap;  // 0: none
};

// Limits scores before they are scaled: cap · tanh(score · scale / cap), divided by the scale again.
struct Limit {
  float in, out;
  __device__ __forceinline__ explicit Limit(const Sight &sight) : in(sight.cap == 0 ? 0 : sight.scale / sight.cap), out(sight.cap / sight.scale) {}
  // Returns the slope, by which the gradient of the limited score is multiplied.
  __device__ __forceinline__ float apply(float &score) const {
    if (in == 0) return 1;
    const float curve = tanhf(score * in);
    score = out * curve;
    return 1 - curve * curve;
  }
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

// Whether one of `count` queries from the first to the last does not see one of KEYS keys from `key0`.
template <int KEYS, bool LIMITS>
__device__ __forceinline__ bool hidesSome(const Seen &first, const Seen &last, int key0, int firstQuery, int count, int window) {
  const int lastKey = key0 + KEYS - 1;
  const bool isNear = !LIMITS || firstQuery + count - 1 - key0 < window;
  const bool inOwn = last.own <= key0 && lastKey <= firstQuery && isNear;
  const bool inCommon = last.start <= key0 && lastKey < first.end && (!LIMITS || window == NEVER);
  return !inOwn && !inCommon;
}

// The tiles of keys that some query of q0 … end - 1 sees: `ahead` of them from `first` on, the others from `second` on.
template <int KEYS, bool LIMITS> struct TilesSeen {
  int first, second, ahead, count;
  __device__ __forceinline__ TilesSeen(const Seen *seen, int q0, int end, int window) {
    const Seen from = seen[q0];
    int start = from.start, own = from.own;
    if (LIMITS) {
      start = max(start, (own == start ? q0 : from.end) - window + 1);
      own = max(own, q0 - window + 1);
    }
    first = start / KEYS * KEYS, second = own / KEYS * KEYS;
    ahead = (min(max(seen[end - 1].end, first), second) - first + KEYS - 1) / KEYS;
    count = ahead + (end - second + KEYS - 1) / KEYS;
  }
  __device__ __forceinline__ int at(int tile) const { return tile < ahead ? first + tile * KEYS : second + (tile - ahead) * KEYS; }
};

// TILES: sixteen rows each, for one warp. KEYS: of a tile in shared memory.
template <int LENGTH, int TILES, int KEYS, bool LIMITS>
__device__ __forceinline__ void attendForward(const bf16 *qkv, int stride, bf16 *out, int outStride, float *lse, const Sight &sight) {
  constexpr int QUERIES = 64 * TILES;
  DYNAMIC_SHARED(shared);
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
  const TilesSeen<KEYS, LIMITS> tiles(seen, q0, min(q0 + QUERIES, T), sight.window);
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
    if (LIMITS) {
      const Limit limit(sight);
#pragma unroll
      for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) limit.apply(scores[m][n][i]);
    }
    const bool masked = hidesSome<KEYS, LIMITS>(firstSees, lastSees, key0, warpRow, 16 * TILES, sight.window);
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
              if (sees.hides(key0 + n * 8 + lane.quad * 2 + e, query, LIMITS ? sight.window : NEVER)) scores[m][n][2 * r + e] = -INFINITY;
        }
        carryShares<KEYS, LENGTH>(scores[m], sums[m], r, toLog2, top[m][r], total[m][r]);
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
