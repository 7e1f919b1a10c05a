// Pairs of F16 numbers: arithmetic, and products of tensor cores. Numbers below 2⁻¹⁴ are exact too.
#pragma once
#include "device.cuh"

#ifdef VERK_EMULATED
inline float numberOfHalf(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest < 0x400u) return (sign ? -1.0f : 1.0f) * static_cast<float>(rest) * 5.9604644775390625e-8f;
  return __uint_as_float(sign | (rest < 0x7c00u ? (rest << 13) + 0x38000000u : (rest << 13) | 0x7f800000u));
}
inline uint32_t halfBits(float x) {
  const uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return sign | 0x7e00u;
  if (rest >= 0x477ff000u) return sign | 0x7c00u;
  if (rest < 0x38800000u) return sign | static_cast<uint32_t>(lrintf(fabsf(x) * 16777216.0f));
  return sign | (((rest + 0xfffu + ((rest >> 13) & 1)) >> 13) - (112u << 10));
}
inline uint32_t halvesOf(float low, float high) { return halfBits(low) | halfBits(high) << 16; }
inline uint32_t timesHalves(uint32_t a, uint32_t b) {
  return halvesOf(numberOfHalf(a & 0xffff) * numberOfHalf(b & 0xffff), numberOfHalf(a >> 16) * numberOfHalf(b >> 16));
}
inline uint32_t timesPlusHalves(uint32_t a, uint32_t b, uint32_t c) {
  return halvesOf(numberOfHalf(a & 0xffff) * numberOfHalf(b & 0xffff) + numberOfHalf(c & 0xffff), numberOfHalf(a >> 16) * numberOfHalf(b >> 16) + numberOfHalf(c >> 16));
}
// As `multiply`, of F16 numbers.
inline void multiplyHalves(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  auto *rows = emulation::exchange();
  const int lane = emulation::current->lane, group = lane >> 2, quad = lane & 3;
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  memcpy(rows[lane], own, sizeof(own));
  emulation::warpBarrier();
  const auto number = [](uint32_t two, int which) { return numberOfHalf(which ? two >> 16 : two & 0xffff); };
  for (int e = 0; e < 4; e++) {
    const int high = e >> 1, column = quad * 2 + (e & 1);
    float total = sum[e];
    for (int k = 0; k < 16; k++) {
      const int part = k >> 3, holder = (k & 7) >> 1;
      total += number(rows[group * 4 + holder][high + 2 * part], k & 1) * number(rows[column * 4 + holder][4 + part], k & 1);
    }
    sum[e] = total;
  }
  emulation::current->turn++;
}
#else
__device__ __forceinline__ float numberOfHalf(uint32_t bits) {
  float to;
  asm("cvt.f32.f16 %0, %1;" : "=f"(to) : "h"(static_cast<unsigned short>(bits)));
  return to;
}
__device__ __forceinline__ uint32_t halvesOf(float low, float high) {
  uint32_t to;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
  return to;
}
__device__ __forceinline__ uint32_t timesHalves(uint32_t a, uint32_t b) {
  uint32_t to;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(to) : "r"(a), "r"(b));
  return to;
}
// One rounding, and none where the result is a small whole number.
__device__ __forceinline__ uint32_t timesPlusHalves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t to;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "r"(c));
  return to;
}
__device__ __forceinline__ void multiplyHalves(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Rows of activations as products of quantized weights take them, in F16. A power of two for each block of 256 brings the
// block's largest number between 2⁹ and 2¹⁰, so that whatever BF16 holds has all its bits, down to 2⁻²⁶ of the largest.
// `sums` are those of groups of 32, each as two numbers: [row][block][quad] for groups 2 · quad and the next.
struct Ready {
  uint16_t *halves; // [row][depth]
  uint2 *sums;
  float *scales; // [block][scaleStride]: what a number in `halves` is multiplied by
  int scaleStride, unused;
};
constexpr int READY_BLOCK = 256;
__host__ __device__ __forceinline__ int readyBlocks(int depth) { return (depth + READY_BLOCK - 1) / READY_BLOCK; }

// Eight numbers of a lane, all lanes of a warp a block. They are rounded to BF16 before. `i`: the first in the row of `depth`.
__device__ __forceinline__ void putReady(const Ready &to, int row, int depth, int i, const float (&v)[8]) {
  const int lane = threadIdx.x & 31, block = i / READY_BLOCK;
  float x[8], most = 0, sum = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) x[k] = i < depth ? rounded(v[k]) : 0, most = fmaxf(most, fabsf(x[k]));
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, by));
  const uint32_t power = max(__float_as_uint(most) >> 23, 10u);
  const float by = __uint_as_float((263u - power) << 23);
#pragma unroll
  for (int k = 0; k < 8; k++) x[k] *= by, sum += x[k];
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  const float next = __shfl_xor_sync(~0u, sum, 4);
  if (lane == 0) to.scales[static_cast<size_t>(block) * to.scaleStride + row] = __uint_as_float((power - 9u) << 23);
  if (i >= depth) return;
  *reinterpret_cast<uint4 *>(to.halves + static_cast<size_t>(row) * depth + i) = make_uint4(halvesOf(x[0], x[1]), halvesOf(x[2], x[3]), halvesOf(x[4], x[5]), halvesOf(x[6], x[7]));
  if ((lane & 7) != 0) return;
  const uint32_t high = halvesOf(sum, next);
  const uint32_t low = halvesOf(sum - numberOfHalf(high & 0xffff), next - numberOfHalf(high >> 16));
  to.sums[(static_cast<size_t>(row) * readyBlocks(depth) + block) * 4 + (lane >> 3)] = {high, low};
}

// A warp for each block of a row. Block y: the row.
extern "C" __global__ void ready_rows(const bf16 *x, int depth, int xStride, Ready to) {
  letNextBegin();
  waitForPrevious();
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (i / READY_BLOCK * READY_BLOCK >= depth) return;
  float v[8] = {};
  if (i < depth) unpack(eightAt(x + static_cast<size_t>(blockIdx.y) * xStride + i), v);
  putReady(to, blockIdx.y, depth, i, v);
}
