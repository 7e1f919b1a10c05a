// Attention for tokens of a prompt: a block has PROMPT_LINES lines of one key head, loops over the keys of a span, and keeps
// its sums in registers. Pages come into shared memory, some ahead. The order of sums is that of attention.cuh.
#pragma once
#include "attention.cuh"

constexpr int PROMPT_WARPS = 4, PROMPT_LINES = 16 * PROMPT_WARPS;
// The columns of a long head are shared by two blocks, which compute the same scores: sums of all would not fit into registers.
template <int LENGTH> constexpr int PROMPT_STAGES = LENGTH > 128 ? 3 : 4;

// Block x: the span, block y: the key head and its columns, block z: the tile.
template <int LENGTH, class Kept> __device__ __forceinline__ void attendPrompt(const Attention &of) {
  constexpr int COLUMNS = COLUMNS_AT_ONCE<LENGTH>, SHARES = LENGTH / COLUMNS, C8 = COLUMNS / 8, STAGES = PROMPT_STAGES<LENGTH>, THREADS = PROMPT_WARPS * 32;
  DYNAMIC_SHARED(shared);
  uint8_t *stages = reinterpret_cast<uint8_t *>(shared); // [stage][keys, values]
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int keyHead = blockIdx.y / SHARES, column0 = blockIdx.y % SHARES * COLUMNS, perKey = of.heads / of.pages.keyHeads;
  letNextBegin();
  waitForPrevious();
  const int row0 = of.tiles[2 * blockIdx.z], tokens = of.tiles[2 * blockIdx.z + 1];
  const int slot = of.rows.slots[row0], used = tokens * perKey, line0 = warp * 16;
  if (slot < 0) return;
  const int keysEnd = of.rows.positions[row0 + tokens - 1] + 1;
  const int first = max(static_cast<int>(blockIdx.x) * SPAN * CHUNK, of.beginOf(row0) / PAGE * PAGE), end = min(keysEnd, (static_cast<int>(blockIdx.x) + 1) * SPAN * CHUNK);
  if (first >= end) return;
  const int *table = of.pages.table + static_cast<size_t>(slot) * of.pages.tableStride;
  const auto fetch = [&](int key0) {
    if (key0 < end) {
      uint8_t *to = stages + key0 / PAGE % STAGES * 2 * Kept::BYTES;
      const int page = table[key0 / PAGE];
      const uint8_t *keys = of.pages.record(page, keyHead, Kept::BYTES), *values = of.pages.record(page, of.pages.keyHeads + keyHead, Kept::BYTES);
#pragma unroll
      for (int i = threadIdx.x; i < Kept::BYTES / 16; i += THREADS) {
        copySixteen(to + Kept::placeOfKeys(i), keys + i * 16, true);
        copySixteen(to + Kept::BYTES + i * 16, values + i * 16, true);
      }
    }
    commitLoads();
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) fetch(first + s * PAGE);

  const Lines<LENGTH> lines(of, row0, line0, used, keyHead, perKey);
  const int warpEnd = line0 < used ? of.rows.positions[row0 + (min(line0 + 16, used) - 1) / perKey] + 1 : 0;
  float sums[C8][4] = {}, tops[2] = {-INFINITY, -INFINITY}, totals[2] = {0, 0}; // of the chunk
  float allSums[C8][4] = {}, allTops[2] = {-INFINITY, -INFINITY}, allTotals[2] = {0, 0};
  for (int key0 = first; key0 < end; key0 += PAGE) {
    waitForLoads<STAGES - 2>();
    __syncthreads(); // this page is there, and the one before is no longer read
    fetch(key0 + (STAGES - 1) * PAGE);
    if (key0 < warpEnd) {
      const uint8_t *keys = stages + key0 / PAGE % STAGES * 2 * Kept::BYTES, *values = keys + Kept::BYTES;
      const int own = key0 + quad * 8;
      float scores[4][4] = {}, pageTops[2], pageTotals[2], before[2];
      lines.template score<Kept>(scores, pageTops, own, keys, [&](uint32_t (&to)[4], int j, int b) { Kept::numbers(to, Kept::placedKey(keys, (group >> 1) * 8 + (group & 1) + 2 * j, b, quad)); });
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const Shrunk by(tops[h], pageTops[h]);
        before[h] = by.before, tops[h] = by.top;
      }
      LeftRows shares = lines.share(scores, tops, pageTotals);
#pragma unroll
      for (int h = 0; h < 2; h++) totals[h] = fmaf(totals[h], before[h], pageTotals[h]);
#pragma unroll
      for (int d = 0; d < C8; d++) {
        if constexpr (Kept::SCALED)
          if (d % 4 == 0) shares = scaledShares(scores, Kept::scales(values, (column0 + d * 8) / 32, quad), own, keysEnd);
        uint32_t right[4];
        Kept::numbers(right, Kept::value(values, column0 + d * 8 + group, quad));
        if (!Kept::SCALED && key0 + PAGE > keysEnd) dropValues(right, own, keysEnd);
        float part[4] = {};
        shares.multiplyInto(part, right);
#pragma unroll
        for (int e = 0; e < 4; e++) sums[d][e] = fmaf(sums[d][e], before[e >> 1], part[e]);
      }
    }
    if ((key0 + PAGE) % CHUNK != 0 && key0 + PAGE < end) continue;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const Shrunk by(allTops[h], tops[h]);
      allTotals[h] = joined(allTotals[h], by, totals[h]);
#pragma unroll
      for (int d = 0; d < C8; d++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) allSums[d][e] = joined(allSums[d][e], by, sums[d][e]), sums[d][e] = 0;
      allTops[h] = by.top, tops[h] = -INFINITY, totals[h] = 0;
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int line = line0 + group + 8 * h;
    if (line >= used) continue;
    const int row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
    if (of.chunks == 1) {
      const Quotient by(of, head, allTops[h], allTotals[h]);
      bf16 *to = of.out + static_cast<size_t>(row) * of.outStride + head * of.outLength;
#pragma unroll
      for (int d = 0; d < C8; d++) {
        const int column = column0 + d * 8 + quad * 2;
        if (column < of.outLength) *reinterpret_cast<uint32_t *>(to + column) = pairOf(by.of(allSums[d][2 * h]), by.of(allSums[d][2 * h + 1]));
      }
      continue;
    }
    const size_t part = (static_cast<size_t>(row) * of.heads + head) * of.chunks + blockIdx.x;
    float *to = of.parts + part * LENGTH + column0 + quad * 2;
#pragma unroll
    for (int d = 0; d < C8; d++) *reinterpret_cast<float2 *>(to + d * 8) = make_float2(allSums[d][2 * h], allSums[d][2 * h + 1]);
    if (quad == 0 && column0 == 0) of.tops[part] = make_float2(allTops[h], allTotals[h]);
  }
}

#define ATTEND_PROMPT(LENGTH, BLOCKS)                                                                                                                              \
  extern "C" __global__ __launch_bounds__(PROMPT_WARPS * 32, BLOCKS) void attend_prompt_##LENGTH(Attention of) { attendPrompt<LENGTH, Bf16Kept<LENGTH>>(of); } \
  extern "C" __global__ __launch_bounds__(PROMPT_WARPS * 32, BLOCKS) void attend_prompt_q8_##LENGTH(Attention of) { attendPrompt<LENGTH, Q8Kept<LENGTH>>(of); }

ATTEND_PROMPT(64, 3)
ATTEND_PROMPT(96, 2)
ATTEND_PROMPT(128, 2)
ATTEND_PROMPT(256, 2)
