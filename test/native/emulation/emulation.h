// CUDA on the host, for tests without a GPU. A block runs as one fiber per thread, on one processor. A barrier or a
// shuffle passes the processor on. Blocks run one after the other, so shared memory is static. A barrier that only a part
// of a block or warp reaches ends the process with a message instead of hanging, as the kernel would.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_bf16.h"

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define __constant__ static

struct Three {
  unsigned x = 0, y = 0, z = 0;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulation {
struct Thread {
  Three index;
  int lane = 0, warp = 0;
  unsigned turn = 0; // shuffles so far: two buffers take turns, so that one barrier is enough for each
};
extern Thread *current;
extern Three block, grid, threads;
extern char *dynamicShared;
void blockBarrier();
void warpBarrier();
void queueCopy(void *to, const void *from, bool inside);
void commitCopies();
void finishCopies(int pending);
constexpr int EXCHANGE_WORDS = 8;
uint32_t (*exchange())[EXCHANGE_WORDS]; // 32 rows of the current warp and turn
} // namespace emulation

#define threadIdx (emulation::current->index)
#define blockIdx (emulation::block)
#define gridDim (emulation::grid)
#define blockDim (emulation::threads)

inline void __syncthreads() { emulation::blockBarrier(); }
inline void __syncwarp(unsigned = ~0u) { emulation::warpBarrier(); }

template <class T> T exchanged(T value, int from) {
  static_assert(sizeof(T) <= 4 * emulation::EXCHANGE_WORDS, "a shuffle moves at most a row");
  auto *rows = emulation::exchange();
  memcpy(rows[emulation::current->lane], &value, sizeof(T));
  emulation::warpBarrier();
  T result;
  memcpy(&result, rows[from & 31], sizeof(T));
  emulation::current->turn++;
  return result;
}
template <class T> T __shfl_xor_sync(unsigned, T value, int by) { return exchanged(value, emulation::current->lane ^ by); }
template <class T> T __shfl_sync(unsigned, T value, int from) { return exchanged(value, from); }
template <class T> T __shfl_up_sync(unsigned, T value, int by) {
  const int lane = emulation::current->lane;
  return exchanged(value, lane < by ? lane : lane - by);
}
inline unsigned __ballot_sync(unsigned, int is) {
  auto *rows = emulation::exchange();
  rows[emulation::current->lane][0] = is != 0;
  emulation::warpBarrier();
  unsigned bits = 0;
  for (int i = 0; i < 32; i++) bits |= rows[i][0] << i;
  emulation::current->turn++;
  return bits;
}
inline int __syncthreads_or(int is) {
  static int any;
  emulation::blockBarrier();
  any = 0;
  emulation::blockBarrier();
  any |= is != 0;
  emulation::blockBarrier();
  return any;
}

template <class T, class V> T atomicAdd(T *to, V value) {
  const T old = *to;
  *to = old + static_cast<T>(value);
  return old;
}
inline int atomicMin(int *to, int value) {
  const int old = *to;
  if (value < old) *to = value;
  return old;
}

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline int __clz(unsigned x) { return x == 0 ? 32 : __builtin_clz(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
inline uint32_t __float_as_uint(float from) {
  uint32_t to;
  memcpy(&to, &from, 4);
  return to;
}
// Byte i of the result is the one that digit i of `which` names: 0 … 3 of `low`, 4 … 7 of `high`.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t which) {
  const uint64_t all = low | static_cast<uint64_t>(high) << 32;
  uint32_t to = 0;
  for (int i = 0; i < 4; i++) to |= static_cast<uint32_t>(all >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
  return to;
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((low | static_cast<uint64_t>(high) << 32) >> (by & 31));
}
inline float __uint_as_float(uint32_t from) {
  float to;
  memcpy(&to, &from, 4);
  return to;
}
inline int __float_as_int(float from) { return static_cast<int>(__float_as_uint(from)); }
inline float __int_as_float(int from) { return __uint_as_float(static_cast<uint32_t>(from)); }

// The bodies of what common.cuh writes in assembly.
inline float halfOf(uint32_t two, int which) { return __uint_as_float(which ? two & 0xffff0000u : two << 16); }

// m16n8k16: a lane holds rows lane / 4 and + 8, columns 2 · (lane % 4) and the next. Sums run from k = 0 upwards.
inline void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  auto *rows = emulation::exchange();
  const int lane = emulation::current->lane, group = lane >> 2, quad = lane & 3;
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  memcpy(rows[lane], own, sizeof(own));
  emulation::warpBarrier();
  for (int e = 0; e < 4; e++) {
    const int high = e >> 1, column = quad * 2 + (e & 1);
    float total = sum[e];
    for (int k = 0; k < 16; k++) {
      const int part = k >> 3, holder = (k & 7) >> 1;
      total += halfOf(rows[group * 4 + holder][high + 2 * part], k & 1) * halfOf(rows[column * 4 + holder][4 + part], k & 1);
    }
    sum[e] = total;
  }
  emulation::current->turn++;
}

// A copy is done when the thread waits for it, and not earlier: what reads it without waiting finds old bytes.
inline void copySixteen(void *to, const void *from, bool inside) { emulation::queueCopy(to, from, inside); }
inline void commitLoads() { emulation::commitCopies(); }
template <int PENDING> void waitForLoads() { emulation::finishCopies(PENDING); }
inline uint4 streamed(const void *from) {
  uint4 to;
  memcpy(&to, from, 16);
  return to;
}
