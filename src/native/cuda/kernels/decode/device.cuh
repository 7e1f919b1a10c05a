// What the kernels of decoding share: the order of sums, the tensor cores' operands straight from rows, pages.
//
// Every sum has an order that depends on the model and the position alone, never on the other rows of a batch. A row
// therefore gets the same bits at every batch size, in a prompt and as a single token.
#pragma once
#include "../common.cuh"

#ifdef VERK_EMULATED
#define DYNAMIC_SHARED(name) char *const name = emulation::dynamicShared
__device__ __forceinline__ void waitForPrevious() {}
__device__ __forceinline__ void letNextBegin() {}
#else
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) char name[]

__device__ __forceinline__ void copySixteen(void *to, const void *from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from), "r"(inside ? 16 : 0));
}

// A kernel may be started while the one before it still runs. Until it has waited, it reads nothing but weights and writes
// nothing. Every kernel waits, so that what is done before the one before is done too.
__device__ __forceinline__ void waitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void letNextBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Weights are read once: they must not push the activations out of the first cache.
__device__ __forceinline__ uint4 streamed(const void *from) {
  uint4 to;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w) : "l"(from));
  return to;
}
#endif

// Thirty-two numbers of sixteen rows as the left operand of two products: a lane has eight numbers in a row of rows
// lane / 4 and + 8. Which numbers meet in one instruction does not matter, if the right operand has the same order.
struct LeftRows {
  uint32_t low[4], high[4];
  __device__ __forceinline__ void multiplyInto(float (&sum)[4], const uint32_t (&right)[4]) const {
    const uint32_t first[4] = {low[0], high[0], low[1], high[1]}, second[4] = {low[2], high[2], low[3], high[3]};
    multiply(sum, first, right[0], right[1]);
    multiply(sum, second, right[2], right[3]);
  }
};

__device__ __forceinline__ void take(uint32_t (&to)[4], const uint4 &from) { to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w; }
__device__ __forceinline__ void takeRow(uint32_t (&to)[4], const void *from) { take(to, *static_cast<const uint4 *>(from)); }
__device__ __forceinline__ void takeNothing(uint32_t (&to)[4]) { to[0] = to[1] = to[2] = to[3] = 0; }

__device__ __forceinline__ float rounded(float x) { return __bfloat162float(__float2bfloat16(x)); }

constexpr int PAGE = 32;    // tokens
constexpr int UNIT = 64;    // numbers of a row that a slice of a sum consists of
constexpr int MOST_SLICES = 8;
constexpr int NO_SLOT = -1; // of a row that computes nothing

// A long sum is cut into slices. Each is summed upwards, then the slices are added from the first to the last.
__device__ __forceinline__ int sliceStart(int slice, int slices, int depth) {
  const int units = (depth + UNIT - 1) / UNIT;
  return static_cast<int>(static_cast<int64_t>(units) * slice / slices) * UNIT;
}

// The result of a product: whole in BF16, or in slices of F32 that are still to be added.
struct Branch {
  const bf16 *whole;
  const float *parts;
  int slices;
  int sliceStride; // numbers from slice to slice
  __device__ __forceinline__ float at(size_t i) const {
    if (whole != nullptr) return __bfloat162float(whole[i]);
    float each[MOST_SLICES]; // all of them are on their way at once
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
      if (slice < slices) each[slice] = parts[static_cast<size_t>(slice) * sliceStride + i];
    float sum = each[0];
#pragma unroll
    for (int slice = 1; slice < MOST_SLICES; slice++)
      if (slice < slices) sum += each[slice];
    return rounded(sum);
  }
  __device__ __forceinline__ void eight(size_t i, float *to) const {
    if (whole != nullptr) return unpack(eightAt(whole + i), to);
    float each[MOST_SLICES][8];
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
      if (slice < slices) eightFloats(parts + static_cast<size_t>(slice) * sliceStride + i, each[slice]);
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float sum = each[0][k];
#pragma unroll
      for (int slice = 1; slice < MOST_SLICES; slice++)
        if (slice < slices) sum += each[slice][k];
      to[k] = rounded(sum);
    }
  }
};
