// Attention for tokens of a prompt: a block has PROMPT_LINES lines of one key head, loops over the keys of a span, and keeps
// its sums in registers. Pages come into shared memory, some ahead. The order of sums is that of attention.cuh.
#pragma once
#include "attention.cuh"

constexpr int PROMPT_WARPS = 4, PROMPT_LINES = 16 * PROMPT_WARPS, PAGE_STAGES = 4;

template <int LENGTH> __device__ __forceinline__ int keyPlace(int row, int piece) { return row * LENGTH + ((piece ^ ((row & 1) << 2)) << 3); }

// Block x: the span, block y: the key head, block z: the tile.
template <int LENGTH> __device__ __forceinline__ void attendPrompt(const Attention &of) {
  constexpr int D8 = LENGTH / 8, NUMBERS = PAGE * LENGTH, PIECES = NUMBERS / 8, THREADS = PROMPT_WARPS * 32;
  DYNAMIC_SHARED(shared);
  bf16 *stages = reinterpret_cast<bf16 *>(shared); // [stage][keys, values]
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int keyHead = blockIdx.y, perKey = of.heads / of.pages.keyHeads;
  letNextBegin();
  waitForPrevious();
  const int row0 = of.tiles[2 * blockIdx.z], tokens = of.tiles[2 * blockIdx.z + 1];
  const int slot = of.rows.slots[row0], used = tokens * perKey, line0 = warp * 16;
  if (slot < 0) return;
  const int keysEnd = of.rows.positions[row0 + tokens - 1] + 1;
  const int first = blockIdx.x * SPAN * CHUNK, end = min(keysEnd, first + SPAN * CHUNK);
  if (first >= end) return;
  const int *table = of.pages.table + static_cast<size_t>(slot) * of.pages.tableStride;
  const auto fetch = [&](int key0) {
    if (key0 < end) {
      bf16 *to = stages + key0 / PAGE % PAGE_STAGES * 2 * NUMBERS;
      const int page = table[key0 / PAGE];
      const bf16 *keys = of.pages.keys(page, keyHead, LENGTH), *values = of.pages.values(page, keyHead, LENGTH);
#pragma unroll
      for (int i = threadIdx.x; i < PIECES; i += THREADS) {
        copySixteen(to + keyPlace<LENGTH>(i / D8, i % D8), keys + i * 8, true);
        copySixteen(to + NUMBERS + i * 8, values + i * 8, true);
      }
    }
    commitLoads();
  };
#pragma unroll
  for (int s = 0; s < PAGE_STAGES - 1; s++) fetch(first + s * PAGE);

  const Lines<LENGTH> lines(of, row0, line0, used, keyHead, perKey);
  const int warpEnd = line0 < used ? of.rows.positions[row0 + (min(line0 + 16, used) - 1) / perKey] + 1 : 0;
  float sums[D8][4] = {}, tops[2] = {-INFINITY, -INFINITY}, totals[2] = {0, 0}; // of the chunk
  float allSums[D8][4] = {}, allTops[2] = {-INFINITY, -INFINITY}, allTotals[2] = {0, 0};
  for (int key0 = first; key0 < end; key0 += PAGE) {
    waitForLoads<PAGE_STAGES - 2>();
    __syncthreads(); // this page is there, and the one before is no longer read
    fetch(key0 + (PAGE_STAGES - 1) * PAGE);
    if (key0 < warpEnd) {
      const bf16 *keys = stages + key0 / PAGE % PAGE_STAGES * 2 * NUMBERS, *values = keys + NUMBERS;
      const int own = key0 + quad * 8;
      float scores[4][4] = {}, pageTops[2], pageTotals[2], before[2];
      lines.score(scores, pageTops, own, [&](uint32_t (&to)[4], int j, int b) { takeRow(to, keys + keyPlace<LENGTH>((group >> 1) * 8 + (group & 1) + 2 * j, b * 4 + quad)); });
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const Shrunk by(tops[h], pageTops[h]);
        before[h] = by.before, tops[h] = by.top;
      }
      const LeftRows shares = lines.share(scores, tops, pageTotals);
#pragma unroll
      for (int h = 0; h < 2; h++) totals[h] = fmaf(totals[h], before[h], pageTotals[h]);
#pragma unroll
      for (int d = 0; d < D8; d++) {
        uint32_t right[4];
        takeRow(right, values + (d * 8 + group) * PAGE + quad * 8);
        if (key0 + PAGE > keysEnd) dropValues(right, own, keysEnd);
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
      for (int d = 0; d < D8; d++)
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
      const float by = 1 / allTotals[h];
      bf16 *to = of.out + static_cast<size_t>(row) * of.outStride + head * LENGTH + quad * 2;
#pragma unroll
      for (int d = 0; d < D8; d++) *reinterpret_cast<uint32_t *>(to + d * 8) = pairOf(allSums[d][2 * h] * by, allSums[d][2 * h + 1] * by);
      continue;
    }
    const size_t part = (static_cast<size_t>(row) * of.heads + head) * of.chunks + blockIdx.x;
    float *to = of.parts + part * LENGTH + quad * 2;
#pragma unroll
    for (int d = 0; d < D8; d++) *reinterpret_cast<float2 *>(to + d * 8) = make_float2(allSums[d][2 * h], allSums[d][2 * h + 1]);
    if (quad == 0) of.tops[part] = make_float2(allTops[h], allTotals[h]);
  }
}

extern "C" __global__ __launch_bounds__(PROMPT_WARPS * 32, 3) void attend_prompt_64(Attention of) { attendPrompt<64>(of); }
extern "C" __global__ __launch_bounds__(PROMPT_WARPS * 32, 2) void attend_prompt_128(Attention of) { attendPrompt<128>(of); }
