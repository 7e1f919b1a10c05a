// Attention, backward, in two passes without atomic additions: the same input gives the same bits. Shares are computed
// again from the logarithms of their sums. `delta` is Σ dO·O of each query and head.
#pragma once
#include "attention.cuh"

struct Backward {
  const bf16 *qkv;
  int stride;
  const bf16 *ofOut; // gradient of what attention gave
  int outStride;
  const float *lse, *delta;
  bf16 *to; // gradients of queries, keys and values, laid out as those are
  int toStride;
  float *parts; // of keys and values for each head by itself, to be added up; null: a block adds up what it has
};

// One block for each 64 queries of a head. KEYS: of a tile in shared memory.
template <int LENGTH, int KEYS, bool LIMITS> __device__ __forceinline__ void attendBackQueries(const Backward &of, const Sight &sight) {
  constexpr int QUERIES = 64;
  DYNAMIC_SHARED(shared);
  bf16 *queries = reinterpret_cast<bf16 *>(shared);
  bf16 *given = queries + QUERIES * LENGTH, *keys = given + QUERIES * LENGTH, *values = keys + 2 * KEYS * LENGTH;

  const Lane lane;
  const int T = sight.tokens, head = blockIdx.y, row = blockIdx.z;
  const int q0 = (gridDim.x - 1 - blockIdx.x) * QUERIES;
  const int keyHead = head / (sight.heads / sight.keyHeads);
  const Seen *seen = sight.seen + static_cast<size_t>(row) * T;
  const bf16 *base = of.qkv + static_cast<size_t>(row) * T * of.stride;
  const bf16 *keysFrom = base + (sight.heads + keyHead) * LENGTH;
  const bf16 *valuesFrom = keysFrom + sight.keyHeads * LENGTH;
  const TilesSeen<KEYS, LIMITS> tiles(seen, q0, min(q0 + QUERIES, T), sight.window);
  const Limit limit(sight);
  const float toLog2 = sight.scale * LOG2E;

  const auto fetch = [&](int tile) {
    const int key0 = tiles.at(tile), stage = (tile & 1) * KEYS * LENGTH;
    loadTile<LENGTH, KEYS, ATTENTION_THREADS>(keys + stage, keysFrom + static_cast<size_t>(key0) * of.stride, of.stride, T - key0);
    loadTile<LENGTH, KEYS, ATTENTION_THREADS>(values + stage, valuesFrom + static_cast<size_t>(key0) * of.stride, of.stride, T - key0);
  };
  loadTile<LENGTH, QUERIES, ATTENTION_THREADS>(queries, base + static_cast<size_t>(q0) * of.stride + head * LENGTH, of.stride, T - q0);
  loadTile<LENGTH, QUERIES, ATTENTION_THREADS>(given, of.ofOut + (static_cast<size_t>(row) * T + q0) * of.outStride + head * LENGTH, of.outStride, T - q0);
  fetch(0);
  commitLoads();

  const int warpRow = q0 + lane.warp * 16;
  const Seen firstSees = seenBy(seen, warpRow, T), lastSees = seenBy(seen, warpRow + 15, T);
  float lse[2], delta[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int query = warpRow + lane.group + 8 * r;
    const size_t at = (static_cast<size_t>(row) * sight.heads + head) * T + query;
    lse[r] = query < T ? of.lse[at] : 0;
    delta[r] = query < T ? of.delta[at] : 0;
  }
  float sums[LENGTH / 8][4] = {};

  for (int tile = 0; tile < tiles.count; tile++) {
    const int key0 = tiles.at(tile), stage = (tile & 1) * KEYS * LENGTH;
    if (tile + 1 < tiles.count) fetch(tile + 1);
    commitLoads();
    waitForLoads<1>();
    __syncthreads();

    float shares[KEYS / 8][4] = {}, ofShares[KEYS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < LENGTH; k += 16) {
      uint32_t left[4], leftGiven[4];
      leftOf<LENGTH>(left, queries, lane.warp * 16, k);
      leftOf<LENGTH>(leftGiven, given, lane.warp * 16, k);
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        uint32_t right[4];
        rightOfRows<LENGTH>(right, keys + stage, n * 16, k);
        multiply(shares[2 * n], left, right[0], right[1]);
        multiply(shares[2 * n + 1], left, right[2], right[3]);
        rightOfRows<LENGTH>(right, values + stage, n * 16, k);
        multiply(ofShares[2 * n], leftGiven, right[0], right[1]);
        multiply(ofShares[2 * n + 1], leftGiven, right[2], right[3]);
      }
    }
    const bool masked = hidesSome<KEYS, LIMITS>(firstSees, lastSees, key0, warpRow, 16, sight.window);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int query = warpRow + lane.group + 8 * r;
      const Seen sees = masked ? seenBy(seen, query, T) : Seen{0, NEVER, 0, 0};
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int i = 2 * r + e;
          const bool hidden = masked && sees.hides(key0 + n * 8 + lane.quad * 2 + e, query, LIMITS ? sight.window : NEVER);
          const float slope = LIMITS ? limit.apply(shares[n][i]) : 1;
          const float share = hidden ? 0 : exp2f(shares[n][i] * toLog2 - lse[r]);
          ofShares[n][i] = share * (ofShares[n][i] - delta[r]) * slope;
        }
    }
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      uint32_t left[4];
      leftOfSums(left, ofShares[2 * k], ofShares[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < LENGTH / 16; n++) {
        uint32_t right[4];
        rightOfColumns<LENGTH>(right, keys + stage, k * 16, n * 16);
        multiply(sums[2 * n], left, right[0], right[1]);
        multiply(sums[2 * n + 1], left, right[2], right[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int query = warpRow + lane.group + 8 * r;
    if (query >= T) continue;
    bf16 *to = of.to + (static_cast<size_t>(row) * T + query) * of.toStride + head * LENGTH;
#pragma unroll
    for (int n = 0; n < LENGTH / 8; n++)
      *reinterpret_cast<uint32_t *>(to + n * 8 + lane.quad * 2) = pairOf(sums[n][2 * r] * sight.scale, sums[n][2 * r + 1] * sight.scale);
  }
}

// One block for each 64 keys of a key head: the queries of all its heads go by. Or one for each head, where some keys are
// seen by so many more than the others that all would wait for them. Products are computed turned, keys along
// the rows, so that the shares already lie as the left operand of what they are multiplied by. Those that see a tile are
// without a gap: what sees the end of a sequence's beginning is the rest of the sequence, and that begins right there.
// Long heads are divided into PARTS: a block has registers for the sums of some columns, and computes the shares of all.
template <int LENGTH, int QUERIES, int PARTS, bool LIMITS> __device__ __forceinline__ void attendBackKeys(const Backward &of, const Sight &sight) {
  DYNAMIC_SHARED(shared);
  bf16 *keys = reinterpret_cast<bf16 *>(shared);
  constexpr int KEYS = TILE_KEYS, COLUMNS = LENGTH / PARTS;
  bf16 *values = keys + KEYS * LENGTH, *queries = values + KEYS * LENGTH, *given = queries + 2 * QUERIES * LENGTH;
  float *lse = reinterpret_cast<float *>(given + 2 * QUERIES * LENGTH), *delta = lse + 2 * QUERIES;
  Seen *sees = reinterpret_cast<Seen *>(delta + 2 * QUERIES);

  const Lane lane;
  const int T = sight.tokens, row = blockIdx.z, group = sight.heads / sight.keyHeads, heads = of.parts ? 1 : group;
  const int firstHead = blockIdx.x / PARTS * heads, firstColumn = blockIdx.x % PARTS * COLUMNS, keyHead = firstHead / group;
  const KeyTile tile = sight.tiles[row * gridDim.y + blockIdx.y];
  const int key0 = tile.first;
  const Seen *seen = sight.seen + static_cast<size_t>(row) * T;
  const bf16 *base = of.qkv + static_cast<size_t>(row) * T * of.stride;
  const size_t keyColumn = (sight.heads + keyHead) * LENGTH, valueColumn = keyColumn + sight.keyHeads * LENGTH;
  const float toLog2 = sight.scale * LOG2E;
  const Limit limit(sight);
  const int firstTile = key0 / QUERIES;
  const int tiles = (tile.end + QUERIES - 1) / QUERIES - firstTile; // for each head
  const int steps = tiles * heads;

  const auto fetch = [&](int step) {
    const int head = firstHead + step / tiles, q0 = (firstTile + step % tiles) * QUERIES, stage = step & 1;
    loadTile<LENGTH, QUERIES, ATTENTION_THREADS>(queries + stage * QUERIES * LENGTH, base + static_cast<size_t>(q0) * of.stride + head * LENGTH, of.stride, T - q0);
    loadTile<LENGTH, QUERIES, ATTENTION_THREADS>(given + stage * QUERIES * LENGTH, of.ofOut + (static_cast<size_t>(row) * T + q0) * of.outStride + head * LENGTH, of.outStride, T - q0);
    if (threadIdx.x < QUERIES) {
      const int query = q0 + threadIdx.x, at = stage * QUERIES + threadIdx.x;
      const size_t source = (static_cast<size_t>(row) * sight.heads + head) * T + query;
      lse[at] = query < T ? of.lse[source] : 0;
      delta[at] = query < T ? of.delta[source] : 0;
      sees[at] = seenBy(seen, query, T);
    }
  };
  loadTile<LENGTH, KEYS, ATTENTION_THREADS>(keys, base + static_cast<size_t>(key0) * of.stride + keyColumn, of.stride, T - key0);
  loadTile<LENGTH, KEYS, ATTENTION_THREADS>(values, base + static_cast<size_t>(key0) * of.stride + valueColumn, of.stride, T - key0);
  fetch(0);
  commitLoads();

  float ofKeys[COLUMNS / 8][4] = {}, ofValues[COLUMNS / 8][4] = {};
  for (int step = 0; step < steps; step++) {
    const int q0 = (firstTile + step % tiles) * QUERIES, stage = step & 1;
    const bf16 *someQueries = queries + stage * QUERIES * LENGTH, *someGiven = given + stage * QUERIES * LENGTH;
    if (step + 1 < steps) fetch(step + 1);
    commitLoads();
    waitForLoads<1>();
    __syncthreads();

    float shares[QUERIES / 8][4] = {}, ofShares[QUERIES / 8][4] = {};
#pragma unroll
    for (int k = 0; k < LENGTH; k += 16) {
      uint32_t left[4], leftValues[4];
      leftOf<LENGTH>(left, keys, lane.warp * 16, k);
      leftOf<LENGTH>(leftValues, values, lane.warp * 16, k);
#pragma unroll
      for (int n = 0; n < QUERIES / 16; n++) {
        uint32_t right[4];
        rightOfRows<LENGTH>(right, someQueries, n * 16, k);
        multiply(shares[2 * n], left, right[0], right[1]);
        multiply(shares[2 * n + 1], left, right[2], right[3]);
        rightOfRows<LENGTH>(right, someGiven, n * 16, k);
        multiply(ofShares[2 * n], leftValues, right[0], right[1]);
        multiply(ofShares[2 * n + 1], leftValues, right[2], right[3]);
      }
    }
    const Seen *someSee = sees + stage * QUERIES;
    const bool masked = hidesSome<KEYS, LIMITS>(someSee[0], someSee[QUERIES - 1], key0, q0, QUERIES, sight.window);
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int column = n * 8 + lane.quad * 2 + (i & 1), at = stage * QUERIES + column;
        const int key = key0 + lane.warp * 16 + lane.group + 8 * (i >> 1);
        const bool hidden = masked && someSee[column].hides(key, q0 + column, LIMITS ? sight.window : NEVER);
        const float slope = LIMITS ? limit.apply(shares[n][i]) : 1;
        const float share = hidden ? 0 : exp2f(shares[n][i] * toLog2 - lse[at]);
        shares[n][i] = share;
        ofShares[n][i] = share * (ofShares[n][i] - delta[at]) * slope;
      }
#pragma unroll
    for (int k = 0; k < QUERIES / 16; k++) {
      uint32_t left[4], leftOf[4];
      leftOfSums(left, shares[2 * k], shares[2 * k + 1]);
      leftOfSums(leftOf, ofShares[2 * k], ofShares[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < COLUMNS / 16; n++) {
        uint32_t right[4];
        rightOfColumns<LENGTH>(right, someGiven, k * 16, firstColumn + n * 16);
        multiply(ofValues[2 * n], left, right[0], right[1]);
        multiply(ofValues[2 * n + 1], left, right[2], right[3]);
        rightOfColumns<LENGTH>(right, someQueries, k * 16, firstColumn + n * 16);
        multiply(ofKeys[2 * n], leftOf, right[0], right[1]);
        multiply(ofKeys[2 * n + 1], leftOf, right[2], right[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int key = key0 + lane.warp * 16 + lane.group + 8 * r;
    if (key >= T) continue;
    const size_t token = static_cast<size_t>(row) * T + key;
    bf16 *to = of.to + token * of.toStride;
    float *part = of.parts + (token * sight.heads + firstHead) * 2 * LENGTH;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
      const int column = firstColumn + n * 8 + lane.quad * 2;
      if (of.parts) {
        *reinterpret_cast<float2 *>(part + column) = make_float2(ofKeys[n][2 * r] * sight.scale, ofKeys[n][2 * r + 1] * sight.scale);
        *reinterpret_cast<float2 *>(part + LENGTH + column) = make_float2(ofValues[n][2 * r], ofValues[n][2 * r + 1]);
        continue;
      }
      *reinterpret_cast<uint32_t *>(to + keyColumn + column) = pairOf(ofKeys[n][2 * r] * sight.scale, ofKeys[n][2 * r + 1] * sight.scale);
      *reinterpret_cast<uint32_t *>(to + valueColumn + column) = pairOf(ofValues[n][2 * r], ofValues[n][2 * r + 1]);
    }
  }
}
