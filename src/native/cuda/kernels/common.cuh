// What the kernels share: tiles in shared memory, the tensor cores' operands, sums over a block.
#pragma once
#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

struct alignas(16) Eight {
  __nv_bfloat162 pair[4];
};

__device__ __forceinline__ void unpack(const Eight &from, float *to) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 two = __bfloat1622float2(from.pair[i]);
    to[2 * i] = two.x;
    to[2 * i + 1] = two.y;
  }
}

__device__ __forceinline__ Eight packed(const float *from) {
  Eight to;
#pragma unroll
  for (int i = 0; i < 4; i++) to.pair[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
  return to;
}

__device__ __forceinline__ Eight eightAt(const bf16 *from) { return *reinterpret_cast<const Eight *>(from); }
__device__ __forceinline__ void putEight(bf16 *to, const float *from) { *reinterpret_cast<Eight *>(to) = packed(from); }

__device__ __forceinline__ void eightFloats(const float *from, float *to) {
  const float4 a = reinterpret_cast<const float4 *>(from)[0], b = reinterpret_cast<const float4 *>(from)[1];
  to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

__device__ __forceinline__ void putEightFloats(float *to, const float *from) {
  reinterpret_cast<float4 *>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
  reinterpret_cast<float4 *>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
}

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) x += __shfl_xor_sync(~0u, x, by);
  return x;
}

// Every thread of the block gets the sum. Always in the same order.
__device__ __forceinline__ float blockSum(float x) {
  __shared__ float parts[32];
  const int warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  x = warpSum(x);
  __syncthreads(); // of an earlier sum
  if ((threadIdx.x & 31) == 0) parts[warp] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; i++) sum += parts[i];
  return sum;
}

// A row of a tile is LENGTH numbers; its pieces of 16 bytes are exchanged by the row's number, so that eight rows read at
// the same place lie in different banks.
template <int LENGTH> __device__ __forceinline__ int placeOf(int row, int piece) {
  return row * LENGTH + ((piece ^ (row & 7)) << 3);
}

#ifndef VERK_EMULATED // test/native/emulation has bodies of its own for what is written in assembly
__device__ __forceinline__ uint32_t sharedAddress(const void *at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

// Rows past `valid` become zero.
template <int LENGTH, int ROWS, int THREADS>
__device__ __forceinline__ void loadTile(bf16 *tile, const bf16 *from, int stride, int valid) {
  constexpr int PIECES = LENGTH / 8;
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
    const int row = i / PIECES, piece = i % PIECES;
    const bool inside = row < valid;
    const bf16 *source = from + (inside ? static_cast<size_t>(row) * stride : 0) + piece * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(tile + placeOf<LENGTH>(row, piece))), "l"(source), "r"(inside ? 16 : 0));
  }
}

__device__ __forceinline__ void commitLoads() { asm volatile("cp.async.commit_group;"); }
template <int PENDING> __device__ __forceinline__ void waitForLoads() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING)); }

__device__ __forceinline__ void matrices(uint32_t (&to)[4], const bf16 *at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(sharedAddress(at)));
}
__device__ __forceinline__ void turnedMatrices(uint32_t (&to)[4], const bf16 *at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(sharedAddress(at)));
}

// Sixteen rows from `row` and sixteen columns from `column` of a tile, as the left operand.
template <int LENGTH> __device__ __forceinline__ void leftOf(uint32_t (&to)[4], const bf16 *tile, int row, int column) {
  const int lane = threadIdx.x & 31;
  matrices(to, tile + placeOf<LENGTH>(row + (lane & 15), (column >> 3) + (lane >> 4)));
}
// The right operand of X·tileᵀ: rows of the tile are columns of the product. Two of them: [0, 1] and [2, 3].
template <int LENGTH> __device__ __forceinline__ void rightOfRows(uint32_t (&to)[4], const bf16 *tile, int row, int column) {
  const int lane = threadIdx.x & 31;
  matrices(to, tile + placeOf<LENGTH>(row + (lane & 7) + ((lane >> 4) << 3), (column >> 3) + ((lane >> 3) & 1)));
}
// The right operand of X·tile. Two of them: [0, 1] and [2, 3].
template <int LENGTH> __device__ __forceinline__ void rightOfColumns(uint32_t (&to)[4], const bf16 *tile, int row, int column) {
  const int lane = threadIdx.x & 31;
  turnedMatrices(to, tile + placeOf<LENGTH>(row + (lane & 15), (column >> 3) + (lane >> 4)));
}

__device__ __forceinline__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

__device__ __forceinline__ uint32_t pairOf(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&two);
}

// Sums of two neighbouring pieces of eight columns, as the left operand of the next product.
__device__ __forceinline__ void leftOfSums(uint32_t (&to)[4], const float (&a)[4], const float (&b)[4]) {
  to[0] = pairOf(a[0], a[1]);
  to[1] = pairOf(a[2], a[3]);
  to[2] = pairOf(b[0], b[1]);
  to[3] = pairOf(b[2], b[3]);
}
