// out[token][row] = Σ x[token][k] · w[row][k]: what kernels for few tokens (few.cuh) and for many (tiles.cuh) share.
#pragma once
#include "formats.cuh"

enum ProductMode {
  WHOLE,  // BF16
  LOGITS, // F32
  GATED,  // silu(first) ⊙ second in BF16: `first` and `second` have rows / 2 rows each
  PARTS   // F32, one result for each slice: `out` has them one behind the other
};

// Up to three weights over each other, with the same number of columns: `second` begins at row `secondAt`. Parts have a
// multiple of 64 rows, except for the last. `x` has memory for a multiple of the tokens of a tile.
struct Product {
  const uint8_t *first, *second, *third;
  const bf16 *x;
  void *out;
  int secondAt, thirdAt, rows, depth, stride; // the stride of weights, in numbers
  int count, xStride, outStride;
  int mode, slices, sliceStride, unused; // a struct of parameters ends at a multiple of 8 bytes

  // Row 0 … 15 of a tile of sixteen rows; of GATED eight gates, then the eight ups that belong to them.
  template <class Format> __device__ __forceinline__ const uint8_t *rowAt(int tile, int row) const {
    const size_t bytes = Format::rowBytes(stride);
    if (mode == GATED) return (row < 8 ? first : second) + min(tile * 8 + (row & 7), rows / 2 - 1) * bytes;
    const int at = min(tile * 16 + row, rows - 1);
    if (at >= thirdAt) return third + (at - thirdAt) * bytes;
    if (at >= secondAt) return second + (at - secondAt) * bytes;
    return first + at * bytes;
  }
  __device__ __forceinline__ void put(int token, int row, float value) const {
    const size_t at = static_cast<size_t>(token) * outStride + row;
    if (mode == WHOLE) static_cast<bf16 *>(out)[at] = __float2bfloat16(value);
    else static_cast<float *>(out)[at] = value;
  }
  __device__ __forceinline__ void putGated(int token, int row, float gate, float up) const {
    gate = rounded(gate);
    const float product = rounded(up) * (gate / (1 + __expf(-gate)));
    static_cast<bf16 *>(out)[static_cast<size_t>(token) * outStride + row] = __float2bfloat16(product);
  }
};
