// Attention over pages. The sixteen rows of the tensor cores' left operand are the query heads of one key head: of one
// token when a batch decodes, of some neighbouring tokens of a prompt. Keys are cut into chunks of CHUNK: a block attends
// to one chunk, its warps to pages of it in turn, and the results are put together in order. Which keys are summed in
// which order depends on the position alone.
#pragma once
#include "rows.cuh"

constexpr int CHUNK = 256; // keys of a block
constexpr int ATTEND_WARPS = 8;
constexpr float TO_LOG2 = 1.4426950408889634f;

// `tiles` has the first row and the number of rows for each block z; without it each row is a tile. `chunks` is the size of
// the grid. With more than one, results go to `parts` and `tops` ([row][head][chunk]), otherwise to `out`.
struct Attention {
  const bf16 *queries;
  Pages pages;
  Rows rows;
  const int *tiles;
  bf16 *out;
  float *parts;
  float2 *tops; // the highest score, as a power of two, and the sum
  int heads, outStride, chunks;
  float scale;
};

template <int LENGTH> __device__ __forceinline__ void attendPages(const Attention &of) {
  constexpr int D32 = LENGTH / 32, D8 = LENGTH / 8;
  __shared__ float warpTops[ATTEND_WARPS][16], warpTotals[ATTEND_WARPS][16];
  DYNAMIC_SHARED(shared);
  float *warpSums = reinterpret_cast<float *>(shared); // [warp][16][LENGTH]

  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int chunk = blockIdx.x, keyHead = blockIdx.y, perKey = of.heads / of.pages.keyHeads;
  letNextBegin();
  waitForPrevious();
  const int row0 = of.tiles == nullptr ? blockIdx.z : of.tiles[2 * blockIdx.z];
  const int tokens = of.tiles == nullptr ? 1 : of.tiles[2 * blockIdx.z + 1];
  const int slot = of.rows.slots[row0], used = tokens * perKey;
  if (slot < 0) return;
  const int keysEnd = of.rows.positions[row0 + tokens - 1] + 1; // of the last token, which sees the most
  if (chunk * CHUNK >= keysEnd) return;

  // Lines `group` and `group + 8` of the tile; those past the last are computed like the first and dropped.
  int limits[2];
  LeftRows queries[D32];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int line = group + 8 * h < used ? group + 8 * h : 0;
    const int row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
    limits[h] = of.rows.positions[row] + 1;
    const bf16 *from = of.queries + (static_cast<size_t>(row) * of.heads + head) * LENGTH + quad * 8;
#pragma unroll
    for (int b = 0; b < D32; b++) takeRow(h == 0 ? queries[b].low : queries[b].high, from + b * 32);
  }
  const float toLog2 = of.scale * TO_LOG2;
  const int *table = of.pages.table + static_cast<size_t>(slot) * of.pages.tableStride;

  float sums[D8][4] = {}, tops[2] = {-INFINITY, -INFINITY}, totals[2] = {0, 0};
  for (int key0 = chunk * CHUNK + warp * PAGE; key0 < min(keysEnd, (chunk + 1) * CHUNK); key0 += ATTEND_WARPS * PAGE) {
    const int page = table[key0 / PAGE];
    // Column c of score tile j is key 8 · (c / 2) + 2j + c % 2: a lane then has the scores of eight keys in a row, as it has
    // eight values in a row of the turned page.
    const bf16 *keys = of.pages.keys(page, keyHead, LENGTH) + static_cast<size_t>((group >> 1) * 8 + (group & 1)) * LENGTH + quad * 8;
    // The values are on their way while the scores are computed.
    const bf16 *values = of.pages.values(page, keyHead, LENGTH) + static_cast<size_t>(group) * PAGE + quad * 8;
    uint32_t keyRows[4][D32][4], valueRows[D8][4];
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int b = 0; b < D32; b++) takeRow(keyRows[j][b], keys + static_cast<size_t>(2 * j) * LENGTH + b * 32);
#pragma unroll
    for (int d = 0; d < D8; d++) takeRow(valueRows[d], values + static_cast<size_t>(d) * 8 * PAGE);
    float scores[4][4] = {};
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int b = 0; b < D32; b++) queries[b].multiplyInto(scores[j], keyRows[j][b]);
    const int own = key0 + quad * 8; // the lane's first key
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float highest = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float &score = scores[j][2 * h + e];
          if (own + 2 * j + e >= limits[h]) score = -INFINITY;
          highest = fmaxf(highest, score);
        }
      highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
      highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2));
      const float now = fmaxf(tops[h], highest * toLog2);
      const float safe = now == -INFINITY ? 0 : now; // nothing seen yet: -∞ minus -∞ is no number
      const float shrink = exp2f(tops[h] - safe);
      tops[h] = now;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float &score = scores[j][2 * h + e];
          score = exp2f(score * toLog2 - safe);
          sum += score;
        }
      totals[h] = totals[h] * shrink + sum;
#pragma unroll
      for (int d = 0; d < D8; d++) sums[d][2 * h] *= shrink, sums[d][2 * h + 1] *= shrink;
    }
    LeftRows shares;
#pragma unroll
    for (int j = 0; j < 4; j++) shares.low[j] = pairOf(scores[j][0], scores[j][1]), shares.high[j] = pairOf(scores[j][2], scores[j][3]);
    const bool whole = key0 + PAGE <= keysEnd;
#pragma unroll
    for (int d = 0; d < D8; d++) {
      uint32_t (&right)[4] = valueRows[d];
      if (!whole) {
        // What lies behind the last key is left over from another sequence: 0 · ∞ is no number.
#pragma unroll
        for (int j = 0; j < 4; j++) {
          if (own + 2 * j >= keysEnd) right[j] = 0;
          else if (own + 2 * j + 1 >= keysEnd) right[j] &= 0xffffu;
        }
      }
      shares.multiplyInto(sums[d], right);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    totals[h] += __shfl_xor_sync(~0u, totals[h], 1);
    totals[h] += __shfl_xor_sync(~0u, totals[h], 2);
    if (quad == 0) warpTops[warp][group + 8 * h] = tops[h], warpTotals[warp][group + 8 * h] = totals[h];
#pragma unroll
    for (int d = 0; d < D8; d++)
#pragma unroll
      for (int e = 0; e < 2; e++) warpSums[(warp * 16 + group + 8 * h) * LENGTH + d * 8 + quad * 2 + e] = sums[d][2 * h + e];
  }
  __syncthreads();

  for (int i = threadIdx.x; i < used * LENGTH; i += blockDim.x) {
    const int line = i / LENGTH, d = i % LENGTH, row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
    float top = warpTops[0][line];
#pragma unroll
    for (int w = 1; w < ATTEND_WARPS; w++) top = fmaxf(top, warpTops[w][line]);
    const float safe = top == -INFINITY ? 0 : top;
    float sum = 0, total = 0;
#pragma unroll
    for (int w = 0; w < ATTEND_WARPS; w++) {
      const float by = exp2f(warpTops[w][line] - safe);
      sum += warpSums[(w * 16 + line) * LENGTH + d] * by, total += warpTotals[w][line] * by;
    }
    if (of.chunks == 1) {
      of.out[static_cast<size_t>(row) * of.outStride + head * LENGTH + d] = __float2bfloat16(sum * (1 / total));
      continue;
    }
    const size_t part = (static_cast<size_t>(row) * of.heads + head) * of.chunks + chunk;
    of.parts[part * LENGTH + d] = sum;
    if (d == 0) of.tops[part] = make_float2(top, total);
  }
}

// Puts the chunks of a row together. Block x: the row, block y: the head; a thread for each number of the head.
template <int LENGTH> __device__ __forceinline__ void joinChunks(const Attention &of) {
  const int row = blockIdx.x, head = blockIdx.y, d = threadIdx.x;
  letNextBegin();
  waitForPrevious();
  if (of.rows.slots[row] < 0) return;
  const int seen = min(of.chunks, of.rows.positions[row] / CHUNK + 1);
  const size_t part = (static_cast<size_t>(row) * of.heads + head) * of.chunks;
  float top = -INFINITY, sum = 0, total = 0;
  for (int chunk = 0; chunk < seen; chunk++) top = fmaxf(top, of.tops[part + chunk].x);
  for (int chunk = 0; chunk < seen; chunk++) {
    const float2 at = of.tops[part + chunk];
    const float by = exp2f(at.x - top);
    sum += of.parts[(part + chunk) * LENGTH + d] * by, total += at.y * by;
  }
  of.out[static_cast<size_t>(row) * of.outStride + head * LENGTH + d] = __float2bfloat16(sum * (1 / total));
}

#define ATTEND(LENGTH)                                                                                                 \
  extern "C" __global__ __launch_bounds__(ATTEND_WARPS * 32) void attend_##LENGTH(Attention of) { attendPages<LENGTH>(of); } \
  extern "C" __global__ __launch_bounds__(LENGTH) void join_##LENGTH(Attention of) { joinChunks<LENGTH>(of); }

ATTEND(64)
ATTEND(128)
