// Rows of a batch between the products: which token each is, its embedding, norms, rotation and the pages of keys and
// values. The arithmetic is that of the trainer's kernels (../rows.cuh), in the same order.
#pragma once
#include "../carried.cuh"
#include "adapters.cuh"
#include "packed.cuh"
#include "pages.cuh"

// What a row of the batch is: the slot of its sequence (below zero: none), its token and its position.
struct Rows {
  const int *slots, *tokens, *positions;
  int count;
};

// Writes the commands of the host into the board, then looks up what each row decodes. Commands: their number, then a place
// and a value each, no place twice. One block.
extern "C" __global__ void begin_step(int *board, const int *commands, int rowSlots, int rowTokens, int rowPositions, int slotTokens, int slotPositions, int count) {
  letNextBegin();
  waitForPrevious();
  const int commanded = commands[0];
  for (int i = threadIdx.x; i < commanded; i += blockDim.x) board[commands[1 + 2 * i]] = commands[2 + 2 * i];
  __syncthreads();
  for (int row = threadIdx.x; row < count; row += blockDim.x) {
    const int slot = board[rowSlots + row];
    board[rowTokens + row] = slot < 0 ? 0 : board[slotTokens + slot];
    board[rowPositions + row] = slot < 0 ? 0 : board[slotPositions + slot];
  }
}

// The format of the table: 0 BF16, 1 Q8_0, 2 Q4_K, 3 Q6_K, as in a file; 4 more if it is packed. Embeddings are
// multiplied by `by`.
extern "C" __global__ void embed_rows(const uint8_t *table, int format, const int *tokens, float *x, int width, float by) {
  letNextBegin();
  waitForPrevious();
  const size_t token = tokens[blockIdx.x];
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    uint32_t some[4];
    if (format > 3) {
      float each[8];
      for (int k = 0; k < 8; k++) each[k] = rounded(packedNumber(table, format - 4, width, static_cast<int>(token), i + k));
      putEightFloats(x + static_cast<size_t>(blockIdx.x) * width + i, each);
      continue;
    }
    if (format == 0) Bf16Rows::eight(some, table + token * Bf16Rows::rowBytes(width), i);
    else if (format == 1) Q8Rows::eight(some, table + token * Q8Rows::rowBytes(width), i);
    else if (format == 2) Q4Rows::eight(some, table + token * Q4Rows::rowBytes(width), i);
    else Q6Rows::eight(some, table + token * Q6Rows::rowBytes(width), i);
    float v[8];
    unpack(*reinterpret_cast<const Eight *>(some), v);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] *= by;
    putEightFloats(x + static_cast<size_t>(blockIdx.x) * width + i, v);
  }
}

// Adds eight neighbouring numbers of what an adapter changes.
__device__ __forceinline__ void addRanks(const Delta &delta, const float *sums, int i, float *to) {
  float sum[8] = {};
  for (int r = 0; r < delta.ranks; r += RANK_STEP) {
    Eight some[RANK_STEP];
#pragma unroll
    for (int k = 0; k < RANK_STEP; k++) some[k] = eightAt(delta.weights(r + k, i));
#pragma unroll
    for (int k = 0; k < RANK_STEP; k++) {
      float weights[8];
      unpack(some[k], weights);
#pragma unroll
      for (int row = 0; row < 8; row++) sum[row] = fmaf(weights[row], sums[r + k], sum[row]);
    }
  }
#pragma unroll
  for (int row = 0; row < 8; row++) to[row] += sum[row];
}

// x += by · (branch, if there is one, and what the row's adapter adds to it), out = x · weight / rms(x), which is also made
// ready for quantized weights if they come next. One block for each row.
extern "C" __global__ __launch_bounds__(256, 2) void norm_rows(float *x, Branch branch, const float *weight, bf16 *out, int width, int outStride, float epsilon, float by, Adapters adapters, Ready ready) {
  __shared__ float sums[MOST_RANK];
  const Delta delta = adapters.deltaOf(blockIdx.x, 0);
  const int own = threadIdx.x * 8;
  float factors[8] = {}; // of the thread's first numbers
  if (own < width) eightFloats(weight + own, factors);
  letNextBegin();
  waitForPrevious();
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  const bool adds = branch.whole != nullptr || branch.parts != nullptr;
  DYNAMIC_SHARED(rowMemory);
  float *kept = reinterpret_cast<float *>(rowMemory);
  float v[8], w[8]; // of the thread's first numbers, which are on their way while the adapter's sums are
  if (own < width) {
    eightFloats(x + at + own, v);
    if (adds) branch.eight(at + own, w);
  }
  if (delta.changes()) {
    for (int r = threadIdx.x; r < delta.ranks; r += blockDim.x) sums[r] = delta.sumOf(r);
    __syncthreads();
  }
  float squares = 0;
  for (int i = own; i < width; i += blockDim.x * 8) {
    if (i != own) {
      eightFloats(x + at + i, v);
      if (adds) branch.eight(at + i, w);
    }
    if (adds) {
      if (delta.changes()) addRanks(delta, sums, i, w);
#pragma unroll
      for (int k = 0; k < 8; k++) v[k] = fmaf(by, w[k], v[k]);
      putEightFloats(x + at + i, v);
    }
#pragma unroll
    for (int k = 0; k < 8; k++) squares = fmaf(v[k], v[k], squares);
    putEightFloats(kept + i, v);
  }
  const float shrunk = rsqrtf(blockSum(squares) / width + epsilon);
  bf16 *row = out + static_cast<size_t>(blockIdx.x) * outStride;
  const int before = (threadIdx.x & 31) * 8;
  for (int i = threadIdx.x * 8; i - before < width; i += blockDim.x * 8) { // whole warps
    float v[8] = {};
    if (i < width) {
      eightFloats(kept + i, v);
      if (i != own) eightFloats(weight + i, factors);
#pragma unroll
      for (int k = 0; k < 8; k++) v[k] = v[k] * shrunk * factors[k];
      putEight(row + i, v);
    }
    if (ready.halves != nullptr) putReady(ready, blockIdx.x, width, i, v);
  }
}

struct HeadShape {
  int heads, keyHeads, length;
  int far; // so many pairs are (i, i + far), the others neighbours
  float epsilon;
  int straight; // values of a page lie like its keys, as exact attention reads them
  int kept;     // the length of a head in `queries` and in pages
  int bytes;    // of the keys of a key head in a page
  __device__ __forceinline__ int first(int pair) const { return pair < far ? pair : 2 * pair; }
  __device__ __forceinline__ int second(int pair) const { return pair < far ? pair + far : 2 * pair + 1; }
};

constexpr int TURN_WARPS = 8;

// What the row's adapter adds, bias, norm of each head and rotation, each where there is one. Queries grow with `temperatures`
// of their positions and go to `queries`, keys and values into the page of their token. One warp for a head of a row;
// LANE_PAIRS: pairs of a lane.
template <int LANE_PAIRS, bool SCALED> __device__ __forceinline__ void turnRows(const Branch &qkv, bf16 *queries, const Pages &pages, const Rows &rows, const float2 *turns, const float *temperatures, const float *bias, const float *queryNorm, const float *keyNorm, const HeadShape &of, const Adapters &adapters) {
  const int all = of.heads + 2 * of.keyHeads, lane = threadIdx.x & 31;
  const int warp = static_cast<int>((static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5);
  const int row = warp / all, head = warp % all;
  const bool isQuery = head < of.heads, isValue = head >= of.heads + of.keyHeads;
  Delta delta = {nullptr, nullptr, 0, 0, 0};
  if (row < rows.count) delta = adapters.deltaOf(row, isQuery ? 0 : isValue ? 2 : 1);
  // Which rows there are, their places and pages are known before the first of these kernels starts.
  const int slot = row < rows.count ? rows.slots[row] : NO_SLOT, position = slot < 0 ? 0 : rows.positions[row];
  const int page = slot < 0 || isQuery ? 0 : pages.table[static_cast<size_t>(slot) * pages.tableStride + position / PAGE];
  const int pairs = of.length / 2, place = position % PAGE;
  float2 turn[LANE_PAIRS];
#pragma unroll
  for (int k = 0; k < LANE_PAIRS; k++)
    if (lane + 32 * k < pairs) turn[k] = isValue || turns == nullptr ? make_float2(1, 0) : turns[static_cast<size_t>(position) * pairs + lane + 32 * k];
  letNextBegin();
  waitForPrevious();
  if (slot < 0) return;
  const float *norm = isValue ? nullptr : isQuery ? queryNorm : keyNorm;
  const size_t from = (static_cast<size_t>(row) * all + head) * of.length;
  float added[LANE_PAIRS][2] = {};
  if (delta.changes()) {
    const int inMatrix = (isQuery ? head : isValue ? head - of.heads - of.keyHeads : head - of.heads) * of.length;
    for (int first = 0; first < delta.ranks; first += 32) {
      const float own = first + lane < delta.ranks ? delta.sumOf(first + lane) : 0;
      for (int r = first; r < min(first + 32, delta.ranks); r += RANK_STEP) {
        bf16 some[RANK_STEP][LANE_PAIRS][2];
#pragma unroll
        for (int i = 0; i < RANK_STEP; i++)
#pragma unroll
          for (int k = 0; k < LANE_PAIRS; k++) {
            const int pair = lane + 32 * k;
            if (pair < pairs) some[i][k][0] = *delta.weights(r + i, inMatrix + of.first(pair)), some[i][k][1] = *delta.weights(r + i, inMatrix + of.second(pair));
          }
#pragma unroll
        for (int i = 0; i < RANK_STEP; i++) {
          const float by = __shfl_sync(~0u, own, r + i - first);
#pragma unroll
          for (int k = 0; k < LANE_PAIRS; k++)
            if (lane + 32 * k < pairs)
              added[k][0] = fmaf(__bfloat162float(some[i][k][0]), by, added[k][0]), added[k][1] = fmaf(__bfloat162float(some[i][k][1]), by, added[k][1]);
        }
      }
    }
  }
  float x[LANE_PAIRS], y[LANE_PAIRS], squares = 0;
#pragma unroll
  for (int k = 0; k < LANE_PAIRS; k++) {
    const int pair = lane + 32 * k;
    if (pair >= pairs) break;
    const int a = of.first(pair), b = of.second(pair);
    x[k] = qkv.at(from + a), y[k] = qkv.at(from + b);
    if (delta.changes()) x[k] += added[k][0], y[k] += added[k][1];
    if (bias != nullptr) x[k] += bias[head * of.length + a], y[k] += bias[head * of.length + b];
    squares = fmaf(x[k], x[k], fmaf(y[k], y[k], squares));
  }
  const float by = norm == nullptr ? 1 : rsqrtf(warpSum(squares) / of.length + of.epsilon);
#pragma unroll
  for (int k = 0; k < LANE_PAIRS; k++) {
    const int pair = lane + 32 * k;
    if (pair >= pairs) break;
    if (norm != nullptr) x[k] *= by * norm[of.first(pair)], y[k] *= by * norm[of.second(pair)];
    const float2 now = turnedPair(x[k], y[k], turn[k]);
    x[k] = now.x, y[k] = now.y;
  }
  if (isQuery) {
    const float grown = temperatures == nullptr ? 1 : temperatures[position];
    bf16 *to = queries + (static_cast<size_t>(row) * of.heads + head) * of.kept;
#pragma unroll
    for (int k = 0; k < LANE_PAIRS; k++) {
      const int pair = lane + 32 * k;
      if (pair < pairs) to[of.first(pair)] = __float2bfloat16(x[k] * grown), to[of.second(pair)] = __float2bfloat16(y[k] * grown);
    }
    return;
  }
  uint8_t *record = pages.record(page, head - of.heads, of.bytes); // values lie behind the keys of all key heads
  const bool isTurned = isValue && of.straight == 0;
  const int begin = place * (isTurned ? 1 : of.kept), step = isTurned ? PAGE : 1;
  if constexpr (SCALED) {
    __shared__ float heads[TURN_WARPS][LANE_PAIRS * 64];
    float *own = heads[threadIdx.x >> 5];
#pragma unroll
    for (int k = 0; k < LANE_PAIRS; k++) {
      const int pair = lane + 32 * k;
      if (pair < pairs) own[of.first(pair)] = x[k], own[of.second(pair)] = y[k];
    }
    __syncwarp();
    bf16 *scales = reinterpret_cast<bf16 *>(record + PAGE * of.kept);
    for (int first = 0; first < of.length; first += 32) {
      const float value = first + lane < of.length ? own[first + lane] : 0;
      float most = fabsf(value);
#pragma unroll
      for (int other = 16; other > 0; other >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
      const float scale = rounded(most / 127);
      const float number = scale == 0 ? 0 : fminf(fmaxf(rintf(value / scale), -127.0f), 127.0f);
      if (first + lane < of.length) reinterpret_cast<int8_t *>(record)[begin + (first + lane) * step] = static_cast<int8_t>(number);
      if (lane == 0) scales[first / 32 * PAGE + place] = __float2bfloat16(scale);
    }
  } else {
    bf16 *to = reinterpret_cast<bf16 *>(record) + begin;
#pragma unroll
    for (int k = 0; k < LANE_PAIRS; k++) {
      const int pair = lane + 32 * k;
      if (pair < pairs) to[of.first(pair) * step] = __float2bfloat16(x[k]), to[of.second(pair) * step] = __float2bfloat16(y[k]);
    }
  }
}

#define TURN(KIND, LANE_PAIRS, SCALED) \
  extern "C" __global__ __launch_bounds__(TURN_WARPS * 32) void turn_rows##KIND(Branch qkv, bf16 *queries, Pages pages, Rows rows, const float2 *turns, const float *temperatures, const float *bias, const float *queryNorm, const float *keyNorm, HeadShape of, Adapters adapters) { \
    turnRows<LANE_PAIRS, SCALED>(qkv, queries, pages, rows, turns, temperatures, bias, queryNorm, keyNorm, of, adapters); \
  }

TURN(, 2, false)
TURN(_256, 4, false)
TURN(_q8, 2, true)
TURN(_q8_256, 4, true)

// Copies whole pages of all layers: `list` has a source and a target each. Block y: the layer, block x: the pair.
extern "C" __global__ void copy_pages(bf16 *pool, const int *list, int pageNumbers, int layerPages) {
  letNextBegin();
  waitForPrevious();
  const size_t layer = static_cast<size_t>(blockIdx.y) * layerPages;
  const bf16 *from = pool + (layer + list[2 * blockIdx.x]) * pageNumbers;
  bf16 *to = pool + (layer + list[2 * blockIdx.x + 1]) * pageNumbers;
  for (int i = threadIdx.x * 8; i < pageNumbers; i += blockDim.x * 8) *reinterpret_cast<Eight *>(to + i) = eightAt(from + i);
}

// F16 (kind 0) or F32 (kind 1) to BF16.
extern "C" __global__ void to_bf16(const void *from, bf16 *to, int kind, int count) {
  letNextBegin();
  waitForPrevious();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    to[i] = __float2bfloat16(kind == 0 ? halfAt(static_cast<const uint8_t *>(from) + static_cast<size_t>(i) * 2) : static_cast<const float *>(from)[i]);
}
