// Kernels of the trainer for NVIDIA GPUs from compute capability 8.0 on, in one file of machine code that
// scripts/build_kernels makes and src/native/cuda/kernels.ts loads. Rows lie one behind the other, strides count elements.
#include "adam8.cuh"
#include "attention_back.cuh"
#include "branches.cuh"
#include "decode/tiles.cuh"
#include "head.cuh"
#include "rows.cuh"
#include "unpack.cuh"

// NAME: of the kernels. TILES and KEYS: of the forward pass. BACK_KEYS: of a tile while queries get their gradients; QUERIES
// and PARTS: while keys do. Sizes are such that a block has 99 KB of shared memory at most, which every card has.
#define ATTENTION(NAME, LENGTH, LIMITS, TILES, KEYS, BACK_KEYS, QUERIES, PARTS)                                        \
  extern "C" __global__ __launch_bounds__(ATTENTION_THREADS) void attention_##NAME(                                    \
      const bf16 *qkv, int stride, bf16 *out, int outStride, float *lse, Sight sight) {                                \
    attendForward<LENGTH, TILES, KEYS, LIMITS>(qkv, stride, out, outStride, lse, sight);                               \
  }                                                                                                                    \
  extern "C" __global__ __launch_bounds__(ATTENTION_THREADS) void attention_back_queries_##NAME(Backward of, Sight sight) { \
    attendBackQueries<LENGTH, BACK_KEYS, LIMITS>(of, sight);                                                           \
  }                                                                                                                    \
  extern "C" __global__ __launch_bounds__(ATTENTION_THREADS) void attention_back_keys_##NAME(Backward of, Sight sight) { \
    attendBackKeys<LENGTH, QUERIES, PARTS, LIMITS>(of, sight);                                                         \
  }

ATTENTION(64, 64, false, 2, 64, 64, 64, 1)
ATTENTION(96, 96, false, 1, 64, 64, 32, 1)
ATTENTION(128, 128, false, 1, 64, 64, 32, 1)
ATTENTION(limited_128, 128, true, 1, 64, 64, 32, 1)
ATTENTION(limited_256, 256, true, 1, 32, 16, 16, 2)

// Σ dO·O for each head of a token. A head has as many lanes as a power of two divides its pieces of eight numbers.
extern "C" __global__ void attention_delta(const bf16 *out, int outStride, const bf16 *ofOut, int ofStride, float *delta, int heads, int length, int tokensOfRow, int tokens) {
  const int pieces = length / 8, lanes = pieces & -pieces, perToken = heads * lanes;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int token = i / perToken, head = i % perToken / lanes;
  float sum = 0;
  for (int piece = i % lanes; piece < pieces && token < tokens; piece += lanes) {
    const int column = head * length + piece * 8;
    float a[8], b[8];
    unpack(eightAt(out + static_cast<size_t>(token) * outStride + column), a);
    unpack(eightAt(ofOut + static_cast<size_t>(token) * ofStride + column), b);
#pragma unroll
    for (int k = 0; k < 8; k++) sum += a[k] * b[k];
  }
  for (int by = lanes / 2; by > 0; by >>= 1) sum += __shfl_xor_sync(~0u, sum, by);
  if (token < tokens && threadIdx.x % lanes == 0)
    delta[(static_cast<size_t>(token / tokensOfRow) * heads + head) * tokensOfRow + token % tokensOfRow] = sum;
}

// The parts of all heads of a key head, head by head. Eight numbers of a token's keys or values a thread.
extern "C" __global__ void sum_heads(const float *parts, bf16 *to, int toStride, int heads, int keyHeads, int length, int tokens) {
  const int pieces = length / 8, perToken = 2 * keyHeads * pieces, group = heads / keyHeads;
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const size_t token = i / perToken;
  if (token >= tokens) return;
  const int at = i % perToken, kind = at / (keyHeads * pieces), keyHead = at / pieces % keyHeads, column = at % pieces * 8;
  const float *from = parts + ((token * heads + keyHead * group) * 2 + kind) * length + column;
  float sum[8] = {}, some[8];
  for (int head = 0; head < group; head++) {
    eightFloats(from + static_cast<size_t>(head) * 2 * length, some);
#pragma unroll
    for (int k = 0; k < 8; k++) sum[k] += some[k];
  }
  putEight(to + token * toStride + (heads + kind * keyHeads + keyHead) * length + column, sum);
}

// One line of a list of matrices to be copied; sizes and strides in elements.
struct Copy {
  const void *from;
  void *to;
  int rows, columns, fromStride, toStride;
  float by;
  int unused;
};

// F32 to BF16, times a number: adapters into the place where they are multiplied with their weight. Block y: which copy.
extern "C" __global__ void put_adapters(const Copy *list) {
  const Copy copy = list[blockIdx.y];
  const float *from = static_cast<const float *>(copy.from);
  bf16 *to = static_cast<bf16 *>(copy.to);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < copy.rows * copy.columns; i += gridDim.x * blockDim.x) {
    const int row = i / copy.columns, column = i % copy.columns;
    to[static_cast<size_t>(row) * copy.toStride + column] = __float2bfloat16(from[static_cast<size_t>(row) * copy.fromStride + column] * copy.by);
  }
}

// to += from · by: gradients of adapters into their sums.
extern "C" __global__ void add_gradients(const Copy *list) {
  const Copy copy = list[blockIdx.y];
  const float *from = static_cast<const float *>(copy.from);
  float *to = static_cast<float *>(copy.to);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < copy.rows * copy.columns; i += gridDim.x * blockDim.x) {
    const int row = i / copy.columns, column = i % copy.columns;
    to[static_cast<size_t>(row) * copy.toStride + column] += from[static_cast<size_t>(row) * copy.fromStride + column] * copy.by;
  }
}

// Sixteen random bits for each of two numbers.
__device__ __forceinline__ uint32_t scattered(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// W + B · A to where another engine has its W: B stands `bColumn` columns to the right of W. Rounded up or down at random,
// by a function of the seed and the place: to the nearest, steps smaller than a weight's last digit would be lost for good.
// A thread: eight columns of four rows.
extern "C" __global__ void merge_adapter(const bf16 *w, int stride, const bf16 *a, bf16 *out, int rows, int columns, int bColumn, int rank, int seed) {
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * 8, row0 = blockIdx.y * 4;
  if (column >= columns) return;
  float sums[4][8], some[8];
#pragma unroll
  for (int r = 0; r < 4; r++)
    if (row0 + r < rows) unpack(eightAt(w + static_cast<size_t>(row0 + r) * stride + column), sums[r]);
  for (int k = 0; k < rank; k++) {
    unpack(eightAt(a + static_cast<size_t>(k) * stride + column), some);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      if (row0 + r >= rows) break;
      const float b = __bfloat162float(w[static_cast<size_t>(row0 + r) * stride + bColumn + k]);
#pragma unroll
      for (int i = 0; i < 8; i++) sums[r][i] = fmaf(b, some[i], sums[r][i]);
    }
  }
#pragma unroll
  for (int r = 0; r < 4; r++) {
    if (row0 + r >= rows) break;
    const size_t at = static_cast<size_t>(row0 + r) * columns + column;
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t random = scattered(static_cast<uint32_t>(at / 2 + i) ^ static_cast<uint32_t>(seed));
      const uint32_t low = __float_as_uint(sums[r][2 * i]) + (random & 0xffffu), high = __float_as_uint(sums[r][2 * i + 1]) + (random >> 16);
      pairs[i] = (low >> 16) | (high & 0xffff0000u);
    }
    *reinterpret_cast<uint4 *>(out + at) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

// A frozen matrix into a wider one.
extern "C" __global__ void place_matrix(const bf16 *from, bf16 *to, int columns, int toStride) {
  for (int i = threadIdx.x * 8; i < columns; i += blockDim.x * 8)
    *reinterpret_cast<Eight *>(to + static_cast<size_t>(blockIdx.x) * toStride + i) = eightAt(from + static_cast<size_t>(blockIdx.x) * columns + i);
}
