// Attention over pages with the trainer's order of keys, for samples whose log-probabilities must be the trainer's to the
// last bit. Lines of the left operand are those of attendPages; a line has the same bits beside any others. Keys come in the
// tiles of the trainer's forward pass (../attention.cuh): from the start of the sequence up to where its answer begins, then
// from there. A block has one tile of lines and all of its keys; its warps share the columns of the result.
#pragma once
#include "rows.cuh"

constexpr int EXACT_WARPS = 4;

struct ExactAttention {
  const bf16 *queries;
  Pages pages; // with straight values
  Rows rows;
  const int *tiles;  // as those of Attention
  const int *begins; // [slot]: the position where the answer begins; a prompt's rows are all before it
  bf16 *out;
  int heads, outStride;
  float scale;
  int unused;
};

template <int LENGTH> __device__ __forceinline__ void attendExactly(const ExactAttention &of) {
  constexpr int KEYS = CARRIED_KEYS, COLUMNS = LENGTH / EXACT_WARPS, PIECES = LENGTH / 8, THREADS = EXACT_WARPS * 32;
  DYNAMIC_SHARED(shared);
  bf16 *queries = reinterpret_cast<bf16 *>(shared);
  bf16 *keys = queries + 16 * LENGTH, *values = keys + 2 * KEYS * LENGTH;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int keyHead = blockIdx.x, perKey = of.heads / of.pages.keyHeads;
  letNextBegin();
  waitForPrevious();
  const int row0 = of.tiles == nullptr ? blockIdx.y : of.tiles[2 * blockIdx.y];
  const int tokens = of.tiles == nullptr ? 1 : of.tiles[2 * blockIdx.y + 1];
  const int slot = of.rows.slots[row0], used = tokens * perKey;
  if (slot < 0) return;
  const int keysEnd = of.rows.positions[row0 + tokens - 1] + 1, common = min(of.begins[slot], keysEnd);
  const int ahead = (common + KEYS - 1) / KEYS, count = ahead + (keysEnd - common + KEYS - 1) / KEYS;
  const auto firstOf = [&](int tile) { return tile < ahead ? tile * KEYS : common + (tile - ahead) * KEYS; };
  const auto endOf = [&](int tile) { return tile < ahead ? common : keysEnd; };

  // Lines past the last are computed like the first and dropped.
  const auto lineOf = [&](int line) { return line < used ? line : 0; };
  const int *table = of.pages.table + static_cast<size_t>(slot) * of.pages.tableStride;
  const auto fetch = [&](int tile) {
    const int key0 = firstOf(tile), end = endOf(tile), stage = (tile & 1) * KEYS * LENGTH;
    for (int i = threadIdx.x; i < KEYS * PIECES; i += THREADS) {
      const int row = i / PIECES, piece = i % PIECES, key = key0 + row;
      const bool inside = key < end; // what lies behind is zero: 0 · ∞ is no number
      const int page = table[(inside ? key : 0) / PAGE];
      const size_t from = static_cast<size_t>(inside ? key % PAGE : 0) * LENGTH + piece * 8;
      const int to = stage + placeOf<LENGTH>(row, piece);
      copySixteen(keys + to, of.pages.keys(page, keyHead, LENGTH) + from, inside);
      copySixteen(values + to, of.pages.values(page, keyHead, LENGTH) + from, inside);
    }
  };
  for (int i = threadIdx.x; i < 16 * PIECES; i += THREADS) {
    const int line = lineOf(i / PIECES), piece = i % PIECES, row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
    copySixteen(queries + placeOf<LENGTH>(i / PIECES, piece), of.queries + (static_cast<size_t>(row) * of.heads + head) * LENGTH + piece * 8, true);
  }
  fetch(0);
  commitLoads();

  int limits[2];
#pragma unroll
  for (int r = 0; r < 2; r++) limits[r] = of.rows.positions[row0 + lineOf(group + 8 * r) / perKey] + 1;
  const float toLog2 = of.scale * LOG2E;
  float sums[COLUMNS / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  for (int tile = 0; tile < count; tile++) {
    const int key0 = firstOf(tile), end = endOf(tile), stage = (tile & 1) * KEYS * LENGTH;
    if (tile + 1 < count) fetch(tile + 1);
    commitLoads();
    waitForLoads<1>();
    __syncthreads();
    float scores[KEYS / 8][4] = {};
#pragma unroll
    for (int k = 0; k < LENGTH; k += 16) {
      uint32_t left[4];
      leftOf<LENGTH>(left, queries, 0, k);
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        uint32_t right[4];
        rightOfRows<LENGTH>(right, keys + stage, n * 16, k);
        multiply(scores[2 * n], left, right[0], right[1]);
        multiply(scores[2 * n + 1], left, right[2], right[3]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++)
          if (key0 + n * 8 + quad * 2 + e >= min(end, limits[r])) scores[n][2 * r + e] = -INFINITY;
      carryShares<KEYS, COLUMNS>(scores, sums, r, toLog2, top[r], total[r]);
    }
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      uint32_t left[4];
      leftOfSums(left, scores[2 * k], scores[2 * k + 1]);
#pragma unroll
      for (int n = 0; n < COLUMNS / 16; n++) {
        uint32_t right[4];
        rightOfColumns<LENGTH>(right, values + stage, k * 16, warp * COLUMNS + n * 16);
        multiply(sums[2 * n], left, right[0], right[1]);
        multiply(sums[2 * n + 1], left, right[2], right[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float sum = total[r];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const int line = group + 8 * r;
    if (line >= used) continue;
    const float by = 1 / sum;
    const int row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
    bf16 *to = of.out + static_cast<size_t>(row) * of.outStride + head * LENGTH + warp * COLUMNS;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
      *reinterpret_cast<uint32_t *>(to + n * 8 + quad * 2) = pairOf(sums[n][2 * r] * by, sums[n][2 * r + 1] * by);
  }
}

extern "C" __global__ __launch_bounds__(EXACT_WARPS * 32) void attend_exact_64(ExactAttention of) { attendExactly<64>(of); }
extern "C" __global__ __launch_bounds__(EXACT_WARPS * 32) void attend_exact_128(ExactAttention of) { attendExactly<128>(of); }
