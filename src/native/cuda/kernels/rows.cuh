// Norms, rotations and gates. The residual stream and its gradient are F32, everything between products is BF16.
#pragma once
#include "carried.cuh"
#include "decode/device.cuh"

// x = table[id]
extern "C" __global__ void embed(const bf16 *table, const int *ids, float *x, int width) {
  const bf16 *from = table + static_cast<size_t>(ids[blockIdx.x]) * width;
  float *to = x + static_cast<size_t>(blockIdx.x) * width;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8];
    unpack(eightAt(from + i), v);
    putEightFloats(to + i, v);
  }
}

// to = from + more (or from alone), out = to · weight / rms(to). `from` may be `to`. One block for each token.
extern "C" __global__ void add_norm(const float *from, const bf16 *more, float *to, const float *weight, bf16 *out, float *inverse, int width, int outStride, float epsilon) {
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  DYNAMIC_SHARED(rowOfToken);
  float *kept = reinterpret_cast<float *>(rowOfToken);
  float squares = 0;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8], w[8];
    eightFloats(from + at + i, v);
    if (more != nullptr) {
      unpack(eightAt(more + at + i), w);
#pragma unroll
      for (int k = 0; k < 8; k++) v[k] += w[k];
    }
    if (more != nullptr || from != to) putEightFloats(to + at + i, v);
#pragma unroll
    for (int k = 0; k < 8; k++) squares = fmaf(v[k], v[k], squares);
    putEightFloats(kept + i, v);
  }
  const float by = rsqrtf(blockSum(squares) / width + epsilon);
  if (threadIdx.x == 0) inverse[blockIdx.x] = by;
  bf16 *row = out + static_cast<size_t>(blockIdx.x) * outStride;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8], w[8];
    eightFloats(kept + i, v);
    eightFloats(weight + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = v[k] * by * w[k];
    putEight(row + i, v);
  }
}

// `gradient` is that of the norm's result. Where `rows` is given, a token's is in the row that it says, below zero: none,
// and to be multiplied by factors[row]. What goes back through the norm is added to `sum` (or is all of it), and once more
// in BF16, times `outBy`.
extern "C" __global__ void norm_back(const bf16 *gradient, const int *rows, const float *factors, const float *x, const float *inverse, const float *weight, float *sum, bf16 *out, int width, int outStride, int isFirst, float outBy) {
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  const int source = rows == nullptr ? blockIdx.x : rows[blockIdx.x];
  const float by = inverse[blockIdx.x], factor = source < 0 ? 0 : rows == nullptr ? 1 : factors[source];
  gradient += static_cast<size_t>(max(source, 0)) * width;
  float along = 0;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float g[8], v[8], w[8];
    unpack(eightAt(gradient + i), g);
    eightFloats(x + at + i, v);
    eightFloats(weight + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) along += g[k] * w[k] * v[k];
  }
  const float mean = blockSum(along) * by * by / width;
  bf16 *row = out + static_cast<size_t>(blockIdx.x) * outStride;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float g[8], v[8], w[8], s[8] = {};
    unpack(eightAt(gradient + i), g);
    eightFloats(x + at + i, v);
    eightFloats(weight + i, w);
    if (!isFirst) eightFloats(sum + at + i, s);
#pragma unroll
    for (int k = 0; k < 8; k++) s[k] += factor * by * (g[k] * w[k] - v[k] * mean);
    putEightFloats(sum + at + i, s);
#pragma unroll
    for (int k = 0; k < 8; k++) s[k] *= outBy;
    putEight(row + i, s);
  }
}

// to[i] = from[places[i]], and zero where a place is below zero.
extern "C" __global__ void take_rows(const bf16 *from, const int *places, bf16 *to, int width) {
  const int place = places[blockIdx.x];
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    Eight v = eightAt(from + static_cast<size_t>(max(place, 0)) * width + i);
    if (place < 0) v = Eight{};
    *reinterpret_cast<Eight *>(to + static_cast<size_t>(blockIdx.x) * width + i) = v;
  }
}

// out = x ⊙ the pattern that the token drew: what an adapter with dropout reads.
extern "C" __global__ void drop_rows(const bf16 *x, int stride, const float *patterns, const int *choice, bf16 *out, int width) {
  const float *pattern = patterns + static_cast<size_t>(choice[blockIdx.x]) * width;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8], w[8];
    unpack(eightAt(x + static_cast<size_t>(blockIdx.x) * stride + i), v);
    eightFloats(pattern + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] *= w[k];
    putEight(out + static_cast<size_t>(blockIdx.x) * width + i, v);
  }
}

// to += more ⊙ the pattern: the way back.
extern "C" __global__ void add_dropped(const bf16 *more, const float *patterns, const int *choice, bf16 *to, int width) {
  const float *pattern = patterns + static_cast<size_t>(choice[blockIdx.x]) * width;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    const size_t at = static_cast<size_t>(blockIdx.x) * width + i;
    float v[8], w[8], sum[8];
    unpack(eightAt(more + at), v);
    unpack(eightAt(to + at), sum);
    eightFloats(pattern + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) sum[k] += v[k] * w[k];
    putEight(to + at, sum);
  }
}

// silu(gate) ⊙ up; the row holds all gates, then all ups.
extern "C" __global__ void gate_up(const bf16 *both, bf16 *out, int forward, int outStride) {
  const bf16 *row = both + static_cast<size_t>(blockIdx.x) * 2 * forward;
  const int i = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
  if (i >= forward) return;
  float g[8], u[8];
  unpack(eightAt(row + i), g);
  unpack(eightAt(row + forward + i), u);
#pragma unroll
  for (int k = 0; k < 8; k++) u[k] *= g[k] / (1 + __expf(-g[k]));
  putEight(out + static_cast<size_t>(blockIdx.x) * outStride + i, u);
}

extern "C" __global__ void gate_up_back(const bf16 *both, const bf16 *gradient, bf16 *ofBoth, int forward, int ofStride) {
  const size_t token = blockIdx.x;
  const bf16 *row = both + token * 2 * forward;
  const int i = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
  if (i >= forward) return;
  float g[8], u[8], d[8];
  unpack(eightAt(row + i), g);
  unpack(eightAt(row + forward + i), u);
  unpack(eightAt(gradient + token * forward + i), d);
#pragma unroll
  for (int k = 0; k < 8; k++) {
    const float sigmoid = 1 / (1 + __expf(-g[k])), ofProduct = d[k];
    d[k] = ofProduct * u[k] * sigmoid * (1 + g[k] * (1 - sigmoid));
    u[k] = ofProduct * g[k] * sigmoid;
  }
  putEight(ofBoth + token * ofStride + i, d);
  putEight(ofBoth + token * ofStride + forward + i, u);
}

struct Heads {
  int heads, keyHeads, length;
  int halves; // so many pairs are (i, i + halves), the others neighbours
  float epsilon;
};

constexpr int MOST_PAIRS = 4; // of a lane: heads of up to 256

__device__ __forceinline__ void placesOf(const Heads &of, int pair, int &a, int &b) {
  const bool isFar = pair < of.halves;
  a = isFar ? pair : 2 * pair;
  b = isFar ? pair + of.halves : a + 1;
}

// Bias, norm of each head and rotation, each where there is one. One warp for a head of a token; `in` may be `out`.
extern "C" __global__ void turn_heads(const bf16 *in, int inStride, bf16 *out, int outStride, const int *positions, const float2 *turns, const float *bias, const float *queryNorm, const float *keyNorm, Heads of, int tokens) {
  const int all = of.heads + 2 * of.keyHeads, lane = threadIdx.x & 31;
  const size_t warp = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
  const int token = warp / all, head = warp % all;
  if (token >= tokens) return;
  const bool isValue = head >= of.heads + of.keyHeads;
  if (isValue && bias == nullptr && in == out) return;
  const float *norm = isValue ? nullptr : head < of.heads ? queryNorm : keyNorm;
  const bf16 *from = in + static_cast<size_t>(token) * inStride + head * of.length;
  bf16 *to = out + static_cast<size_t>(token) * outStride + head * of.length;
  const int pairs = of.length / 2;
  float x[MOST_PAIRS], y[MOST_PAIRS], squares = 0;
  for (int k = 0; k < MOST_PAIRS; k++) {
    const int pair = lane + 32 * k;
    if (pair >= pairs) break;
    int a, b;
    placesOf(of, pair, a, b);
    x[k] = __bfloat162float(from[a]), y[k] = __bfloat162float(from[b]);
    if (bias != nullptr) x[k] += bias[head * of.length + a], y[k] += bias[head * of.length + b];
    squares = fmaf(x[k], x[k], fmaf(y[k], y[k], squares));
  }
  const float by = norm == nullptr ? 1 : rsqrtf(warpSum(squares) / of.length + of.epsilon);
  for (int k = 0; k < MOST_PAIRS; k++) {
    const int pair = lane + 32 * k;
    if (pair >= pairs) break;
    int a, b;
    placesOf(of, pair, a, b);
    if (norm != nullptr) x[k] *= by * norm[a], y[k] *= by * norm[b];
    const float2 turn = isValue ? make_float2(1, 0) : turns[static_cast<size_t>(positions[token]) * pairs + pair];
    const float2 now = turnedPair(x[k], y[k], turn);
    to[a] = __float2bfloat16(now.x), to[b] = __float2bfloat16(now.y);
  }
}

// In place on the gradients of queries and keys; `in` is what turn_heads read, and only norms need it.
extern "C" __global__ void turn_heads_back(bf16 *gradient, int stride, const bf16 *in, int inStride, const int *positions, const float2 *turns, const float *bias, const float *queryNorm, const float *keyNorm, Heads of, int tokens) {
  const int all = of.heads + of.keyHeads, lane = threadIdx.x & 31;
  const size_t warp = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
  const int token = warp / all, head = warp % all;
  if (token >= tokens) return;
  const float *norm = head < of.heads ? queryNorm : keyNorm;
  const bf16 *from = in + static_cast<size_t>(token) * inStride + head * of.length;
  bf16 *to = gradient + static_cast<size_t>(token) * stride + head * of.length;
  const int pairs = of.length / 2;
  float gx[MOST_PAIRS], gy[MOST_PAIRS], x[MOST_PAIRS], y[MOST_PAIRS], squares = 0, along = 0;
  for (int k = 0; k < MOST_PAIRS; k++) {
    const int pair = lane + 32 * k;
    if (pair >= pairs) break;
    int a, b;
    placesOf(of, pair, a, b);
    const float2 turn = turns[static_cast<size_t>(positions[token]) * pairs + pair];
    const float da = __bfloat162float(to[a]), db = __bfloat162float(to[b]);
    gx[k] = da * turn.x + db * turn.y, gy[k] = db * turn.x - da * turn.y;
    if (norm == nullptr) continue;
    x[k] = __bfloat162float(from[a]), y[k] = __bfloat162float(from[b]);
    if (bias != nullptr) x[k] += bias[head * of.length + a], y[k] += bias[head * of.length + b];
    gx[k] *= norm[a], gy[k] *= norm[b];
    squares += x[k] * x[k] + y[k] * y[k];
    along += x[k] * gx[k] + y[k] * gy[k];
  }
  float by = 1, mean = 0;
  if (norm != nullptr) {
    by = rsqrtf(warpSum(squares) / of.length + of.epsilon);
    mean = warpSum(along) * by * by / of.length;
  }
  for (int k = 0; k < MOST_PAIRS; k++) {
    const int pair = lane + 32 * k;
    if (pair >= pairs) break;
    int a, b;
    placesOf(of, pair, a, b);
    to[a] = __float2bfloat16(norm == nullptr ? gx[k] : by * (gx[k] - x[k] * mean));
    to[b] = __float2bfloat16(norm == nullptr ? gy[k] : by * (gy[k] - y[k] * mean));
  }
}
