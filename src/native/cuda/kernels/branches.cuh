// What some families do around the parts of a layer: norms of their results, another gate, scaled embeddings, limited
// logits. Rows of one token for each block, eight numbers a thread at a time.
#pragma once
#include "common.cuh"

// x *= by
extern "C" __global__ void scale_rows(float *x, int width, float by) {
  float *row = x + static_cast<size_t>(blockIdx.x) * width;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8];
    eightFloats(row + i, v);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] *= by;
    putEightFloats(row + i, v);
  }
}

// out = by · y · weight / rms(y): the result of attention or of the feed-forward part, before it is added.
extern "C" __global__ void norm_result(const bf16 *y, const float *weight, bf16 *out, float *inverse, int width, float epsilon, float by) {
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  float squares = 0;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8];
    unpack(eightAt(y + at + i), v);
#pragma unroll
    for (int k = 0; k < 8; k++) squares += v[k] * v[k];
  }
  const float rms = rsqrtf(blockSum(squares) / width + epsilon);
  if (threadIdx.x == 0) inverse[blockIdx.x] = rms;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float v[8], w[8];
    unpack(eightAt(y + at + i), v);
    eightFloats(weight + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] *= by * rms * w[k];
    putEight(out + at + i, v);
  }
}

// The gradient of y, from that of the stream.
extern "C" __global__ void norm_result_back(const float *sum, const bf16 *y, const float *inverse, const float *weight, bf16 *out, int width, int outStride, float by) {
  const size_t at = static_cast<size_t>(blockIdx.x) * width;
  const float rms = inverse[blockIdx.x];
  float along = 0;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float g[8], v[8], w[8];
    eightFloats(sum + at + i, g);
    unpack(eightAt(y + at + i), v);
    eightFloats(weight + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) along += g[k] * w[k] * v[k];
  }
  const float mean = blockSum(along) * rms * rms / width;
  bf16 *row = out + static_cast<size_t>(blockIdx.x) * outStride;
  for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
    float g[8], v[8], w[8];
    eightFloats(sum + at + i, g);
    unpack(eightAt(y + at + i), v);
    eightFloats(weight + i, w);
#pragma unroll
    for (int k = 0; k < 8; k++) g[k] = by * rms * (g[k] * w[k] - v[k] * mean);
    putEight(row + i, g);
  }
}

// gelu(x) = x · σ(z) in its tanh form, where z = slope · x · (1 + cube · x²).
struct Gelu {
  float share, slope; // σ(z), and the derivative of gelu
  __device__ __forceinline__ explicit Gelu(float x) {
    constexpr float SLOPE = 1.5957691216057308f, CUBE = 0.044715f;
    share = 1 / (1 + __expf(-SLOPE * x * (1 + CUBE * x * x)));
    slope = share * (1 + x * (1 - share) * SLOPE * (1 + 3 * CUBE * x * x));
  }
};

// gelu(gate) ⊙ up; rows as those of gate_up.
extern "C" __global__ void gelu_up(const bf16 *both, bf16 *out, int forward, int outStride) {
  const bf16 *row = both + static_cast<size_t>(blockIdx.x) * 2 * forward;
  const int i = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
  if (i >= forward) return;
  float g[8], u[8];
  unpack(eightAt(row + i), g);
  unpack(eightAt(row + forward + i), u);
#pragma unroll
  for (int k = 0; k < 8; k++) u[k] *= g[k] * Gelu(g[k]).share;
  putEight(out + static_cast<size_t>(blockIdx.x) * outStride + i, u);
}

extern "C" __global__ void gelu_up_back(const bf16 *both, const bf16 *gradient, bf16 *ofBoth, int forward, int ofStride) {
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
    const Gelu gelu(g[k]);
    const float ofProduct = d[k];
    d[k] = ofProduct * u[k] * gelu.slope;
    u[k] = ofProduct * g[k] * gelu.share;
  }
  putEight(ofBoth + token * ofStride + i, d);
  putEight(ofBoth + token * ofStride + forward + i, u);
}

// logits = most · tanh(logits), in place. Blocks y divide the vocabulary.
extern "C" __global__ void limit_logits(float *logits, int stride, int vocab, float most) {
  float *row = logits + static_cast<size_t>(blockIdx.x) * stride;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < vocab; i += gridDim.y * blockDim.x) row[i] = most * tanhf(row[i]);
}

// Gradients of limited logits become those of the logits before: shares *= 1 - tanh².
extern "C" __global__ void limit_logits_back(const float *logits, int stride, bf16 *shares, int shareStride, int vocab, float most) {
  const float *row = logits + static_cast<size_t>(blockIdx.x) * stride;
  bf16 *to = shares + static_cast<size_t>(blockIdx.x) * shareStride;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < vocab; i += gridDim.y * blockDim.x) {
    const float curve = row[i] / most;
    to[i] = __float2bfloat16(__bfloat162float(to[i]) * (1 - curve * curve));
  }
}
