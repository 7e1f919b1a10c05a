// Attention over pages. The sixteen rows of the tensor cores' left operand are the query heads of one key head: of one
// token when a batch decodes, of some neighbouring tokens of a prompt. Here a block attends to one chunk of CHUNK keys, and
// each of its warps to one page; attention_prompt.cuh has many lines and a loop over the keys. Both sum in one order, which
// depends on the position alone: pages of a chunk are carried from the first to the last, then chunks of a span, then spans.
#pragma once
#include "rows.cuh"

constexpr int CHUNK = 256; // keys of a block
constexpr int ATTEND_WARPS = 8;
constexpr int SPAN = 8; // chunks

// `tiles` has the first row and the number of rows for each block z; without it each row is a tile. `chunks` is the size of
// the grid. With more than one, results go to `parts` and `tops` ([row][head][chunk]), otherwise to `out`. Where a part is a
// span, `joined` is SPAN and `chunks` counts spans.
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
  int joined;
  int window;       // a token sees so many keys, its own among them; 0: all
  int outLength;    // numbers of a head in `out`: at most those that the kernel is for
  float cap;        // scores are limited to ± cap; 0: they are not
  const float *sinks; // [head]: a score without a value; without memory: none
  // The first key that the token sees.
  __device__ __forceinline__ int beginOf(int row) const { return window > 0 ? max(0, rows.positions[row] + 1 - window) : 0; }
};

// What is carried from keys to keys: the highest score, as a power of two.
struct Shrunk {
  float top, before, now; // factors of what was summed before, and of what is added
  __device__ __forceinline__ Shrunk(float was, float next) {
    top = fmaxf(was, next);
    const float safe = top == -INFINITY ? 0 : top; // nothing seen yet: -∞ minus -∞ is no number
    before = exp2f(was - safe), now = exp2f(next - safe);
  }
};
__device__ __forceinline__ float joined(float sum, const Shrunk &by, float part) { return fmaf(sum, by.before, __fmul_rn(part, by.now)); }

// Factors of the sum of all keys: what a sink takes of it, and one by the sum of shares.
struct Quotient {
  float kept, inverse;
  __device__ __forceinline__ Quotient(const Attention &of, int head, float top, float total) : kept(1), inverse(1 / total) {
    if (of.sinks == nullptr) return;
    const Shrunk by(top, of.sinks[head] * LOG2E);
    kept = by.before, inverse = 1 / joined(total, by, 1);
  }
  __device__ __forceinline__ float of(float sum) const { return __fmul_rn(__fmul_rn(sum, kept), inverse); }
};

// Sixteen lines of a warp: a lane has lines `group` and `group` + 8. Lines past the last are computed like the first and
// dropped.
template <int LENGTH> struct Lines {
  static constexpr int D32 = LENGTH / 32;
  LeftRows queries[D32];
  const Attention &of;
  int limits[2];
  float toLog2;

  __device__ __forceinline__ Lines(const Attention &of, int row0, int line0, int used, int keyHead, int perKey)
      : of(of), toLog2(of.cap > 0 ? LOG2E : of.scale * LOG2E) {
    const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int own = line0 + group + 8 * h, line = own < used ? own : 0;
      const int row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
      limits[h] = of.rows.positions[row] + 1;
      const bf16 *from = of.queries + (static_cast<size_t>(row) * of.heads + head) * LENGTH + quad * 8;
#pragma unroll
      for (int b = 0; b < D32; b++) takeRow(h == 0 ? queries[b].low : queries[b].high, from + b * 32);
    }
  }
  // Scores of a page, whose keys `take` reads. Column c of score tile j is key 8 · (c / 2) + 2j + c % 2: a lane then has the
  // scores of eight keys in a row, as it has eight values in a row of the turned page. `own` is the lane's first key.
  template <class Kept, class Take> __device__ __forceinline__ void score(float (&scores)[4][4], float (&tops)[2], int own, const uint8_t *keys, const Take &take) const {
    if constexpr (Kept::SCALED) {
#pragma unroll
      for (int b = 0; b < D32; b++) {
        const uint4 scales = Kept::scales(keys, b, threadIdx.x & 3);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float2 by = twoScales(scales, j);
          float part[4] = {};
          uint32_t right[4];
          take(right, j, b);
          queries[b].multiplyInto(part, right);
#pragma unroll
          for (int e = 0; e < 4; e++) scores[j][e] = fmaf(part[e], (e & 1) == 0 ? by.x : by.y, scores[j][e]);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int b = 0; b < D32; b++) {
          uint32_t right[4];
          take(right, j, b);
          queries[b].multiplyInto(scores[j], right);
        }
    }
    if (of.cap > 0) {
      const float toCap = of.scale / of.cap;
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) scores[j][e] = __fmul_rn(of.cap, 1 - 2 / (1 + __expf(2 * __fmul_rn(scores[j][e], toCap)))); // tanh
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float highest = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float &score = scores[j][2 * h + e];
          const int key = own + 2 * j + e;
          if (key >= limits[h] || (of.window > 0 && key + of.window < limits[h])) score = -INFINITY;
          highest = fmaxf(highest, score);
        }
      highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
      tops[h] = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2)) * toLog2;
    }
  }
  // Shares of the softmax below `tops`, and their sums.
  __device__ __forceinline__ LeftRows share(float (&scores)[4][4], const float (&tops)[2], float (&totals)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float safe = tops[h] == -INFINITY ? 0 : tops[h];
      float sum = 0;
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float &score = scores[j][2 * h + e];
          score = exp2f(fmaf(score, toLog2, -safe));
          sum = __fadd_rn(sum, score);
        }
      sum += __shfl_xor_sync(~0u, sum, 1);
      totals[h] = sum + __shfl_xor_sync(~0u, sum, 2);
    }
    LeftRows shares;
#pragma unroll
    for (int j = 0; j < 4; j++) shares.low[j] = pairOf(scores[j][0], scores[j][1]), shares.high[j] = pairOf(scores[j][2], scores[j][3]);
    return shares;
  }
};
// What lies behind the last key is left over from another sequence: 0 · ∞ is no number.
__device__ __forceinline__ void dropValues(uint32_t (&values)[4], int own, int keysEnd) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    if (own + 2 * j >= keysEnd) values[j] = 0;
    else if (own + 2 * j + 1 >= keysEnd) values[j] &= 0xffffu;
  }
}
// Shares times the scales of 32 numbers of the values, whose bytes are then multiplied as they are.
__device__ __forceinline__ LeftRows scaledShares(const float (&shares)[4][4], const uint4 &from, int own, int keysEnd) {
  LeftRows to;
  uint32_t scales[4] = {from.x, from.y, from.z, from.w};
  dropValues(scales, own, keysEnd);
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const float low = __uint_as_float(scales[j] << 16), high = __uint_as_float(scales[j] & 0xffff0000u);
    to.low[j] = pairOf(__fmul_rn(shares[j][0], low), __fmul_rn(shares[j][1], high));
    to.high[j] = pairOf(__fmul_rn(shares[j][2], low), __fmul_rn(shares[j][3], high));
  }
  return to;
}

// Sums of long heads are put together some columns at a time: those of all warps would not fit into shared memory.
template <int LENGTH> constexpr int COLUMNS_AT_ONCE = LENGTH > 128 ? 128 : LENGTH;

template <int LENGTH, class Kept> __device__ __forceinline__ void attendPages(const Attention &of) {
  constexpr int D32 = LENGTH / 32, D8 = LENGTH / 8, COLUMNS = COLUMNS_AT_ONCE<LENGTH>;
  constexpr bool AHEAD = LENGTH <= 128; // longer heads have no registers for all of a page
  using Raw = typename Kept::Raw;
  __shared__ float warpTops[ATTEND_WARPS][16], warpTotals[ATTEND_WARPS][16];
  DYNAMIC_SHARED(shared);
  float *warpSums = reinterpret_cast<float *>(shared); // [warp][16][COLUMNS]

  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int chunk = blockIdx.x, keyHead = blockIdx.y, perKey = of.heads / of.pages.keyHeads;
  letNextBegin();
  waitForPrevious();
  const int row0 = of.tiles == nullptr ? blockIdx.z : of.tiles[2 * blockIdx.z];
  const int tokens = of.tiles == nullptr ? 1 : of.tiles[2 * blockIdx.z + 1];
  const int slot = of.rows.slots[row0], used = tokens * perKey;
  if (slot < 0) return;
  const int keysEnd = of.rows.positions[row0 + tokens - 1] + 1; // of the last token, which sees the most
  const int keysBegin = of.beginOf(row0);                       // of the first
  if (chunk * CHUNK >= keysEnd || (chunk + 1) * CHUNK <= keysBegin) return;

  const Lines<LENGTH> lines(of, row0, 0, used, keyHead, perKey);
  const int key0 = chunk * CHUNK + warp * PAGE, own = key0 + quad * 8;
  const bool isSeen = key0 < keysEnd && key0 + PAGE > keysBegin;
  Raw valueRows[AHEAD ? D8 : 1];
  const uint8_t *values = nullptr;
  float scores[4][4] = {}, tops[2] = {-INFINITY, -INFINITY}, totals[2];
  if (isSeen) {
    const int page = of.pages.table[static_cast<size_t>(slot) * of.pages.tableStride + key0 / PAGE];
    const uint8_t *keys = of.pages.record(page, keyHead, Kept::BYTES);
    const int first = (group >> 1) * 8 + (group & 1);
    values = of.pages.record(page, of.pages.keyHeads + keyHead, Kept::BYTES);
    if constexpr (AHEAD) {
      // The values are on their way while the scores are computed.
      Raw keyRows[4][D32];
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int b = 0; b < D32; b++) keyRows[j][b] = Kept::key(keys, first + 2 * j, b, quad);
#pragma unroll
      for (int d = 0; d < D8; d++) valueRows[d] = Kept::value(values, d * 8 + group, quad);
      lines.template score<Kept>(scores, tops, own, keys, [&](uint32_t (&to)[4], int j, int b) { Kept::numbers(to, keyRows[j][b]); });
    } else lines.template score<Kept>(scores, tops, own, keys, [&](uint32_t (&to)[4], int j, int b) { Kept::numbers(to, Kept::key(keys, first + 2 * j, b, quad)); });
  }
#pragma unroll
  for (int h = 0; h < 2; h++)
    if (quad == 0) warpTops[warp][group + 8 * h] = tops[h];
  __syncthreads();
  LeftRows shares = {};
  if (isSeen) {
#pragma unroll
    for (int h = 0; h < 2; h++)
      for (int w = 0; w < warp; w++) tops[h] = fmaxf(tops[h], warpTops[w][group + 8 * h]);
    shares = lines.share(scores, tops, totals);
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (quad == 0) warpTotals[warp][group + 8 * h] = totals[h];
  }
  const int pages = min(ATTEND_WARPS, (keysEnd - chunk * CHUNK + PAGE - 1) / PAGE);
  const int firstPage = max(0, (keysBegin - chunk * CHUNK) / PAGE);
#pragma unroll
  for (int column = 0; column < LENGTH; column += COLUMNS) {
    if (column > 0) __syncthreads(); // the sums before are no longer read
    if (isSeen) {
#pragma unroll
      for (int i = 0; i < COLUMNS / 8; i++) {
        const int d = column / 8 + i;
        if constexpr (Kept::SCALED)
          if (d % 4 == 0) shares = scaledShares(scores, Kept::scales(values, d / 4, quad), own, keysEnd);
        uint32_t right[4];
        Kept::numbers(right, AHEAD ? valueRows[d] : Kept::value(values, d * 8 + group, quad));
        if (!Kept::SCALED && key0 + PAGE > keysEnd) dropValues(right, own, keysEnd);
        float part[4] = {};
        shares.multiplyInto(part, right);
#pragma unroll
        for (int e = 0; e < 4; e++) warpSums[(warp * 16 + group + 8 * (e >> 1)) * COLUMNS + i * 8 + quad * 2 + (e & 1)] = part[e];
      }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < used * COLUMNS; i += blockDim.x) {
      const int line = i / COLUMNS, d = column + i % COLUMNS, row = row0 + line / perKey, head = keyHead * perKey + line % perKey;
      float top = -INFINITY, sum = 0, total = 0;
      for (int w = firstPage; w < pages; w++) {
        const Shrunk by(top, warpTops[w][line]);
        sum = fmaf(sum, by.before, warpSums[(w * 16 + line) * COLUMNS + i % COLUMNS]), total = fmaf(total, by.before, warpTotals[w][line]);
        top = by.top;
      }
      if (of.chunks == 1) {
        if (d < of.outLength) of.out[static_cast<size_t>(row) * of.outStride + head * of.outLength + d] = __float2bfloat16(Quotient(of, head, top, total).of(sum));
        continue;
      }
      const size_t part = (static_cast<size_t>(row) * of.heads + head) * of.chunks + chunk;
      of.parts[part * LENGTH + d] = sum;
      if (d == 0) of.tops[part] = make_float2(top, total);
    }
  }
}

// Puts the parts of a row together. Block x: the row, block y: the head; a thread for each number of the head.
template <int LENGTH> __device__ __forceinline__ void joinChunks(const Attention &of) {
  const int row = blockIdx.x, head = blockIdx.y, d = threadIdx.x;
  letNextBegin();
  waitForPrevious();
  if (of.rows.slots[row] < 0) return;
  const int seen = min(of.chunks, of.rows.positions[row] / (CHUNK * of.joined) + 1), span = SPAN / of.joined;
  const int begin = of.beginOf(row) / (CHUNK * of.joined);
  const size_t part = (static_cast<size_t>(row) * of.heads + head) * of.chunks;
  float top = -INFINITY, sum = 0, total = 0;
  for (int first = begin / span * span; first < seen; first += span) {
    float spanTop = -INFINITY, spanSum = 0, spanTotal = 0;
#pragma unroll 8
    for (int chunk = max(first, begin); chunk < min(first + span, seen); chunk++) {
      const float2 at = of.tops[part + chunk];
      const Shrunk by(spanTop, at.x);
      spanSum = joined(spanSum, by, of.parts[(part + chunk) * LENGTH + d]), spanTotal = joined(spanTotal, by, at.y);
      spanTop = by.top;
    }
    const Shrunk by(top, spanTop);
    sum = joined(sum, by, spanSum), total = joined(total, by, spanTotal);
    top = by.top;
  }
  if (d < of.outLength) of.out[static_cast<size_t>(row) * of.outStride + head * of.outLength + d] = __float2bfloat16(Quotient(of, head, top, total).of(sum));
}

#define ATTEND(LENGTH, BLOCKS)                                                                                                                           \
  extern "C" __global__ __launch_bounds__(ATTEND_WARPS * 32, BLOCKS) void attend_##LENGTH(Attention of) { attendPages<LENGTH, Bf16Kept<LENGTH>>(of); }  \
  extern "C" __global__ __launch_bounds__(ATTEND_WARPS * 32, BLOCKS) void attend_q8_##LENGTH(Attention of) { attendPages<LENGTH, Q8Kept<LENGTH>>(of); } \
  extern "C" __global__ __launch_bounds__(LENGTH) void join_##LENGTH(Attention of) { joinChunks<LENGTH>(of); }

ATTEND(64, 3)
ATTEND(96, 2)
ATTEND(128, 2)
ATTEND(256, 2)
