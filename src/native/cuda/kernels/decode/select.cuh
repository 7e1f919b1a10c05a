// Finds the likeliest tokens of a row without sorting: three passes over the vocabulary count distances in bins. One block
// of DRAW_THREADS. Counts and shares are whole numbers, so that their sums do not depend on the order of the threads.
#pragma once
#include "device.cuh"

constexpr int DRAW_THREADS = 512;
constexpr int DRAW_WARPS = DRAW_THREADS / 32;
constexpr int BINS = 2048;
constexpr uint32_t NEVER_DRAWN = 0xffffffffu; // distance of a token that is excluded
constexpr uint32_t FARTHEST = 0x7fffffffu;
constexpr float PER_NAT = 1048576; // distances closer than 2⁻²⁰ are equal: the lower token comes first
constexpr float WHOLE_SHARE = 1099511627776.0f; // 2⁴⁰

typedef unsigned long long Amount;

__device__ __forceinline__ uint32_t distanceOf(float nats) {
  if (!(nats < 2048)) return nats == INFINITY ? NEVER_DRAWN : FARTHEST;
  return static_cast<uint32_t>(fmaxf(nats, 0) * PER_NAT);
}
__device__ __forceinline__ Amount shareOf(float nats) { return static_cast<Amount>(__expf(-nats) * WHOLE_SHARE); }

// Tokens nearer than `limit`, and those at the limit up to token `last`.
struct Cut {
  uint32_t limit = FARTHEST;
  int last = 0x7fffffff;
  __device__ __forceinline__ bool keeps(uint32_t distance, int token) const { return distance < limit || (distance == limit && token <= last); }
};

// The tokens begin … end - 1 of a warp: segments of a range, in order.
struct Segment {
  int begin, end;
  __device__ __forceinline__ Segment(int from, int to, int warp) {
    const int length = ((to - from + DRAW_WARPS - 1) / DRAW_WARPS + 31) / 32 * 32;
    begin = min(from + warp * length, to), end = min(begin + length, to);
  }
};

// Calls take(x, i) for row[i], i = begin … end - 1, shared by `lanes` threads. Some pieces of sixteen bytes are on their way at
// once: a block reads a whole vocabulary, and waiting for each piece would take most of the time. `begin` is a multiple of 4.
template <class Take> __device__ __forceinline__ void forEach(const float *row, int begin, int end, int lane, int lanes, const Take &take) {
  constexpr int AHEAD = 4;
  const int step = lanes * 4;
  int i = begin + lane * 4;
  for (; i + (AHEAD - 1) * step + 3 < end; i += AHEAD * step) {
    float4 some[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++) some[u] = *reinterpret_cast<const float4 *>(row + i + u * step);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      const int at = i + u * step;
      take(some[u].x, at), take(some[u].y, at + 1), take(some[u].z, at + 2), take(some[u].w, at + 3);
    }
  }
  for (; i < end; i += step)
    for (int k = i; k < min(i + 4, end); k++) take(row[k], k);
}

struct Bins {
  Amount amounts[BINS], groups[DRAW_THREADS];
  int counts[16]; // of the last pass
  int bin, tokens[DRAW_WARPS];
  Amount before;
};

// The first bin at which the amounts up to it reach `need`, and the amount before it; BINS if they never do.
__device__ __forceinline__ int binReaching(Bins &bins, Amount need, Amount &before) {
  constexpr int PER_THREAD = BINS / DRAW_THREADS, PER_LANE = DRAW_THREADS / 32;
  __syncthreads();
  Amount sum = 0;
  for (int i = 0; i < PER_THREAD; i++) sum += bins.amounts[threadIdx.x * PER_THREAD + i];
  bins.groups[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    Amount own = 0;
    for (int i = 0; i < PER_LANE; i++) own += bins.groups[threadIdx.x * PER_LANE + i];
    Amount upTo = own;
    for (int by = 1; by < 32; by <<= 1) {
      const Amount more = __shfl_up_sync(~0u, upTo, by);
      if (threadIdx.x >= static_cast<unsigned>(by)) upTo += more;
    }
    const unsigned reached = __ballot_sync(~0u, upTo >= need);
    if (threadIdx.x == 0 && reached == 0) bins.bin = BINS;
    if (reached != 0 && static_cast<int>(threadIdx.x) == __ffs(reached) - 1) {
      Amount at = upTo - own;
      int group = threadIdx.x * PER_LANE;
      while (at + bins.groups[group] < need) at += bins.groups[group++];
      int bin = group * PER_THREAD;
      while (at + bins.amounts[bin] < need) at += bins.amounts[bin++];
      bins.bin = bin, bins.before = at;
    }
  }
  __syncthreads();
  before = bins.before;
  return bins.bin;
}

__device__ __forceinline__ void clearBins(Bins &bins) {
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += DRAW_THREADS) bins.amounts[i] = 0;
  if (threadIdx.x < 16) bins.counts[threadIdx.x] = 0;
  __syncthreads();
}

// The smallest set of tokens, nearest first, whose amounts reach `need`. `distance(logit, token)` is NEVER_DRAWN for
// tokens that do not count; `amount(logit, token)` is above zero for at least one.
template <class Distance, class AmountOf>
__device__ __forceinline__ Cut nearest(Bins &bins, const float *row, int vocab, Amount need, const Distance &distance, const AmountOf &amount) {
  Cut cut;
  uint32_t prefix = 0;
  constexpr int SHIFTS[] = {15, 4, 0}, WIDTHS[] = {BINS, BINS, 16};
  if (need < 1) need = 1;
#pragma unroll
  for (int pass = 0; pass < 3; pass++) {
    clearBins(bins);
    forEach(row, 0, vocab, threadIdx.x, DRAW_THREADS, [&](float x, int i) {
      const uint32_t at = distance(x, i);
      if (at == NEVER_DRAWN || (pass > 0 && (at >> SHIFTS[pass > 0 ? pass - 1 : 0]) != prefix)) return;
      const uint32_t shifted = at >> SHIFTS[pass];
      const int bin = static_cast<int>(pass == 0 ? min(shifted, static_cast<uint32_t>(BINS - 1)) : shifted & (WIDTHS[pass] - 1));
      atomicAdd(&bins.amounts[bin], amount(x, i));
      if (pass == 2) atomicAdd(&bins.counts[bin], 1);
    });
    Amount before;
    const int bin = binReaching(bins, need, before);
    if (bin == BINS || (pass == 0 && bin == BINS - 1)) return cut; // everything, or tokens of less than e⁻⁶³ are needed
    need -= before;
    prefix = pass == 0 ? bin : (prefix << (SHIFTS[pass - 1] - SHIFTS[pass])) | bin;
  }
  const int equal = bins.counts[prefix & 15];
  cut.limit = prefix;
  if (equal < 2) return cut;
  const Amount each = bins.amounts[prefix & 15] / equal;
  const int keep = each == 0 ? 1 : static_cast<int>((need + each - 1) / each);
  if (keep >= equal) return cut;

  // The token at the limit with the number `keep`, in the order of the vocabulary.
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const Segment own(0, vocab, warp);
  int found = 0;
  for (int at = own.begin; at < own.end; at += 32) found += __popc(__ballot_sync(~0u, at + lane < own.end && distance(row[at + lane], at + lane) == prefix));
  if (lane == 0) bins.tokens[warp] = found;
  __syncthreads();
  int before = 0;
  for (int w = 0; w < warp; w++) before += bins.tokens[w];
  if (before < keep && before + found >= keep) {
    for (int at = own.begin; at < own.end; at += 32) {
      unsigned bits = __ballot_sync(~0u, at + lane < own.end && distance(row[at + lane], at + lane) == prefix);
      const int here = __popc(bits);
      if (before + here < keep) {
        before += here;
        continue;
      }
      for (; before + 1 < keep; before++) bits &= bits - 1;
      if (lane == 0) bins.bin = at + __ffs(bits) - 1;
      break;
    }
  }
  __syncthreads();
  cut.last = bins.bin;
  return cut;
}
