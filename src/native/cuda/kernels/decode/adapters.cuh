// Low-rank adapters beside the weights. A row's adapter adds B · (A · x) to a product W · x: the sums A · x are computed
// beside the product, and B is applied where the product's result is taken. Every sum has a fixed order, so a row gets the
// same bits alone and among rows of other adapters.
#pragma once
#include "formats.cuh"

constexpr int MOST_RANK = 128;
constexpr int TILE_ROWS = 8;
constexpr int TILE_WORDS = 9;   // of a tile: the adapter (below zero: none), then its rows (below zero: none)
constexpr int RANKS = 16;       // that a block sums at once
constexpr int RANK_STEP = 8;    // B has zeros up to a multiple of this
constexpr int SUM_PARTS = 8;    // results of the matrices that share an x: A · x is summed in parts, which are then added

// One matrix of an adapter; without memory if the adapter leaves the matrix alone. `b` lies turned, so that neighbouring
// threads read neighbouring numbers: for each rank `stride` numbers, one for each row of the weight. It includes the scale,
// and has zeros behind the rank up to a multiple of RANK_STEP.
struct LowRank {
  const bf16 *a, *b;
  int rank, stride;
  __device__ __forceinline__ int ranks() const { return (rank + RANK_STEP - 1) / RANK_STEP * RANK_STEP; }
};

// What an adapter adds to one row of a product. Parts of the sums are added from the first to the last.
struct Delta {
  const bf16 *b;
  const float *sums;
  int parts, ranks, stride;
  __device__ __forceinline__ bool changes() const { return b != nullptr; }
  __device__ __forceinline__ float sumOf(int rank) const {
    float each[SUM_PARTS]; // all of them are on their way at once
#pragma unroll
    for (int part = 0; part < SUM_PARTS; part++)
      if (part < parts) each[part] = sums[part * MOST_RANK + rank];
    float sum = each[0];
#pragma unroll
    for (int part = 1; part < SUM_PARTS; part++)
      if (part < parts) sum += each[part];
    return sum;
  }
  __device__ __forceinline__ const bf16 *weights(int rank, int i) const { return b + static_cast<size_t>(rank) * stride + i; }
};

// The adapters of a batch at some neighbouring matrices. Without `rows` the batch has none.
struct Adapters {
  const LowRank *table; // [adapter][stride]
  const int *rows;      // [row]: its adapter, below zero: none
  const int *tiles;     // [tile][TILE_WORDS]: every row is in one of them
  float *sums;          // [row][matrix][part][MOST_RANK]
  int stride, place, matrices; // entries of an adapter, the first of these matrices and their number
  int tileCount, parts;        // parts of a sum, by the number of matrices alone
  int unused;

  __device__ __forceinline__ LowRank matrixOf(int adapter, int matrix) const {
    return table[static_cast<size_t>(adapter) * stride + place + matrix];
  }
  __device__ __forceinline__ float *sumsOf(int row, int matrix) const {
    return sums + (static_cast<size_t>(row) * SUM_PARTS + matrix * parts) * MOST_RANK;
  }
  // Also before a kernel has waited: which row has which adapter is known before the first of these kernels starts.
  __device__ __forceinline__ Delta deltaOf(int row, int matrix) const {
    const int adapter = rows == nullptr ? -1 : rows[row];
    if (adapter < 0) return {nullptr, nullptr, 0, 0, 0};
    const LowRank of = matrixOf(adapter, matrix);
    return {of.b, sumsOf(row, matrix), parts, of.ranks(), of.stride};
  }
  __device__ __forceinline__ int blocks() const { return tileCount * matrices * parts; }
};

__device__ __forceinline__ void fetchAhead(const void *at) {
#ifndef VERK_EMULATED
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

// One part of A · x for the rows of one tile in one matrix. The warps of a block take turns at the slices of the part; `shared`
// has RANKS + 4 numbers for each slice and row. The right operand of the tensor cores is the rows, as in few.cuh. Weights are on
// their way before the block waits, those of B for the kernel that needs them next.
__device__ __forceinline__ void sumRanks(const Adapters &of, int block, const bf16 *x, int xStride, int depth, int slices, float *shared) {
  constexpr int PITCH = RANKS + 4, AHEAD = 4;
  const int part = block % of.parts, matrix = block / of.parts % of.matrices;
  const int *tile = of.tiles + static_cast<size_t>(block / of.parts / of.matrices) * TILE_WORDS;
  const int adapter = tile[0], lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  LowRank low = {nullptr, nullptr, 0, 0};
  if (adapter >= 0) low = of.matrixOf(adapter, matrix);
  const auto startOf = [&](int slice) { return sliceStart(part * slices + slice, of.parts * slices, depth); };
  const int ranks = low.ranks();
  LeftRows left[AHEAD];
  const auto fetch = [&](int first, int step, int end) {
    const bf16 *const upper = low.a + static_cast<size_t>(min(first + group, low.rank - 1)) * depth;
    const bf16 *const lower = low.a + static_cast<size_t>(min(first + group + 8, low.rank - 1)) * depth;
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const int k = step + 32 * u;
      if (k < end) takeRow(left[u].low, upper + k), takeRow(left[u].high, lower + k);
      else takeNothing(left[u].low), takeNothing(left[u].high);
    }
  };
  if (ranks > 0) fetch(0, startOf(warp) + quad * 8, min(startOf(warp + 1), depth));
  const char *later = reinterpret_cast<const char *>(low.b);
  for (int i = (part * blockDim.x + threadIdx.x) * 128; i < ranks * low.stride * 2; i += of.parts * blockDim.x * 128) fetchAhead(later + i);
  letNextBegin();
  waitForPrevious();
  const bf16 *from = x + static_cast<size_t>(max(tile[1 + group], 0)) * xStride;
  for (int first = 0; first < ranks; first += RANKS) {
    for (int slice = warp; slice < slices; slice += blockDim.x >> 5) {
      const int begin = startOf(slice) + quad * 8, end = min(startOf(slice + 1), depth);
      float acc[4] = {};
      for (int step = begin; step < end; step += 32 * AHEAD) {
        if (first > 0 || step > begin || slice != warp) fetch(first, step, end);
        uint32_t right[AHEAD][4];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
          const int k = step + 32 * u;
          if (k < end) takeRow(right[u], from + k);
          else takeNothing(right[u]);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) left[u].multiplyInto(acc, right[u]);
      }
#pragma unroll
      for (int e = 0; e < 4; e++)
        shared[(slice * TILE_ROWS + quad * 2 + (e & 1)) * PITCH + group + (e >> 1) * 8] = acc[e];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_ROWS * RANKS; i += blockDim.x) {
      const int token = i / RANKS, rank = first + i % RANKS, row = tile[1 + token];
      if (row < 0 || rank >= ranks) continue;
      float sum = shared[token * PITCH + i % RANKS];
      for (int s = 1; s < slices; s++) sum += shared[(s * TILE_ROWS + token) * PITCH + i % RANKS];
      of.sumsOf(row, matrix)[part * MOST_RANK + rank] = rank < low.rank ? sum : 0;
    }
    __syncthreads();
  }
}

// The same as a kernel of its own, for products that do not bring it along. A block for each of `Adapters::blocks`.
extern "C" __global__ __launch_bounds__(256) void adapter_sums(Adapters of, const bf16 *x, int xStride, int depth, int slices) {
  DYNAMIC_SHARED(sliceMemory);
  sumRanks(of, blockIdx.x, x, xStride, depth, slices, reinterpret_cast<float *>(sliceMemory));
}

constexpr int GELU = 1;
// silu(x), or gelu(x) in its tanh form.
__device__ __forceinline__ float activated(float x, int activation) {
  const float z = activation == GELU ? 1.5957691216057308f * x * (1 + 0.044715f * x * x) : x;
  return x / (1 + __expf(-z));
}

// out = silu(gate) ⊙ up (or gelu) of whole results, gates and then ups in each row, with what adapters add. The bits of a row without an
// adapter are those of the product that joins both itself. Block y: the tile; a thread has two neighbouring columns.
extern "C" __global__ __launch_bounds__(128) void adapter_gate_up(const bf16 *both, bf16 *out, Adapters of, int forward, int activation) {
  __shared__ __align__(16) float sums[2][TILE_ROWS][MOST_RANK];
  const int *tile = of.tiles + static_cast<size_t>(blockIdx.y) * TILE_WORDS;
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  Delta delta[2] = {{nullptr, nullptr, 0, 0, 0}, {nullptr, nullptr, 0, 0, 0}};
  int count = 0;
  while (count < TILE_ROWS && tile[1 + count] >= 0) count++;
  if (count > 0) delta[0] = of.deltaOf(tile[1], 0), delta[1] = of.deltaOf(tile[1], 1);
  uint32_t some[2][RANK_STEP] = {}; // the first ranks of both are on their way at once
  if (column < forward) {
#pragma unroll
    for (int m = 0; m < 2; m++)
      if (delta[m].ranks > 0) {
#pragma unroll
        for (int k = 0; k < RANK_STEP; k++) some[m][k] = *reinterpret_cast<const uint32_t *>(delta[m].weights(k, column));
      }
  }
  letNextBegin();
  waitForPrevious();
  if (count == 0) return;
  uint32_t gates[TILE_ROWS] = {}, ups[TILE_ROWS] = {};
#pragma unroll
  for (int token = 0; token < TILE_ROWS; token++)
    if (token < count && column < forward) {
      const bf16 *from = both + static_cast<size_t>(tile[1 + token]) * 2 * forward + column;
      gates[token] = *reinterpret_cast<const uint32_t *>(from), ups[token] = *reinterpret_cast<const uint32_t *>(from + forward);
    }
#pragma unroll
  for (int m = 0; m < 2; m++)
    for (int i = threadIdx.x; i < TILE_ROWS * delta[m].ranks; i += blockDim.x) {
      const int token = i / delta[m].ranks, rank = i % delta[m].ranks;
      const Delta own = {delta[m].b, of.sumsOf(tile[1 + min(token, count - 1)], m), of.parts, delta[m].ranks, delta[m].stride};
      if (token < count) sums[m][token][rank] = own.sumOf(rank);
    }
  __syncthreads();
  if (column >= forward) return;
  float parts[2][TILE_ROWS][2] = {};
#pragma unroll
  for (int m = 0; m < 2; m++)
    for (int r = 0; r < delta[m].ranks; r += RANK_STEP) {
      if (r > 0) {
#pragma unroll
        for (int k = 0; k < RANK_STEP; k++) some[m][k] = *reinterpret_cast<const uint32_t *>(delta[m].weights(r + k, column));
      }
#pragma unroll
      for (int token = 0; token < TILE_ROWS; token++) {
        if (token >= count) break;
        float by[RANK_STEP];
        eightFloats(&sums[m][token][r], by);
#pragma unroll
        for (int k = 0; k < RANK_STEP; k++) {
          parts[m][token][0] = fmaf(__uint_as_float(some[m][k] << 16), by[k], parts[m][token][0]);
          parts[m][token][1] = fmaf(__uint_as_float(some[m][k] & 0xffff0000u), by[k], parts[m][token][1]);
        }
      }
    }
#pragma unroll
  for (int token = 0; token < TILE_ROWS; token++) {
    if (token >= count) break;
    float joined[2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
      float gate = __uint_as_float(c == 0 ? gates[token] << 16 : gates[token] & 0xffff0000u);
      float up = __uint_as_float(c == 0 ? ups[token] << 16 : ups[token] & 0xffff0000u);
      if (delta[0].changes()) gate = rounded(gate + parts[0][token][c]);
      if (delta[1].changes()) up = rounded(up + parts[1][token][c]);
      joined[c] = up * activated(gate, activation);
    }
    *reinterpret_cast<uint32_t *>(out + static_cast<size_t>(tile[1 + token]) * forward + column) = pairOf(joined[0], joined[1]);
  }
}

// Adds to logits what adapters change in the head. Block y: the row.
extern "C" __global__ void adapter_logits(float *logits, int stride, int vocab, Adapters of) {
  __shared__ float sums[MOST_RANK];
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  const Delta delta = of.deltaOf(blockIdx.y, 0);
  letNextBegin();
  waitForPrevious();
  if (!delta.changes()) return;
  for (int r = threadIdx.x; r < delta.ranks; r += blockDim.x) sums[r] = delta.sumOf(r);
  __syncthreads();
  if (token >= vocab) return;
  float sum = 0;
  for (int r = 0; r < delta.ranks; r++) sum = fmaf(__bfloat162float(*delta.weights(r, token)), sums[r], sum);
  logits[static_cast<size_t>(blockIdx.y) * stride + token] += sum;
}

// Rows of `columns` numbers, in F16 (kind 0), F32 (1) or BF16 (2), times `by`, to BF16. Number c of row r comes to the place
// r · rowStep + c · columnStep.
extern "C" __global__ void place_rows(const void *from, bf16 *to, int kind, int columns, int rowStep, int columnStep, int rows, float by) {
  letNextBegin();
  waitForPrevious();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += gridDim.x * blockDim.x) {
    float value;
    if (kind == 0) value = halfAt(static_cast<const uint8_t *>(from) + static_cast<size_t>(i) * 2);
    else if (kind == 1) value = static_cast<const float *>(from)[i];
    else value = __bfloat162float(static_cast<const bf16 *>(from)[i]);
    to[static_cast<size_t>(i / columns) * rowStep + static_cast<size_t>(i % columns) * columnStep] = __float2bfloat16(value * by);
  }
}
