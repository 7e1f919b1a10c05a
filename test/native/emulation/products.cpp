// Stands in for cuBLAS: products of BF16 matrices in plain loops, with sums in F32.
#include <stdint.h>
#include <string.h>

namespace {
float numberOf(uint16_t half) {
  const uint32_t word = static_cast<uint32_t>(half) << 16;
  float number;
  memcpy(&number, &word, 4);
  return number;
}
uint16_t halfOf(float number) {
  uint32_t word;
  memcpy(&word, &number, 4);
  return static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}
} // namespace

// to[row][column] = Σ a[row][d] · b[column][d], in F32 or BF16.
extern "C" void emulated_product(const uint16_t *a, int aStride, const uint16_t *b, int bStride, void *to, int toStride, int f32, int rows, int columns, int depth) {
  for (int row = 0; row < rows; row++)
    for (int column = 0; column < columns; column++) {
      const uint16_t *left = a + static_cast<size_t>(row) * aStride, *right = b + static_cast<size_t>(column) * bStride;
      float sum = 0;
      for (int d = 0; d < depth; d++) sum += numberOf(left[d]) * numberOf(right[d]);
      const size_t at = static_cast<size_t>(row) * toStride + column;
      if (f32) static_cast<float *>(to)[at] = sum;
      else static_cast<uint16_t *>(to)[at] = halfOf(sum);
    }
}
