// A libcublas beside fake_cuda.cpp: the calls of kernel_products.ts that decoding makes, with their arguments checked.
#include <stdint.h>

#include <functional>

extern "C" void emulated_product(const uint16_t *a, int aStride, const uint16_t *b, int bStride, void *to, int toStride, int f32, int rows, int columns, int depth);
int fakeQueue(void *stream, std::function<void()> work);

namespace {
constexpr int NOT_READY = 1, WRONG = 7, TURNED = 1, STRAIGHT = 0, BF16 = 14, F32 = 0, SUM_F32 = 68, ANY_WAY = -1;
struct Handle {
  void *stream = nullptr, *workspace = nullptr;
};
} // namespace

#define CALL extern "C" int
CALL cublasCreate_v2(Handle **to) { return *to = new Handle, 0; }
CALL cublasDestroy_v2(Handle *of) { return delete of, 0; }
CALL cublasSetStream_v2(Handle *of, void *stream) { return of->stream = stream, of->workspace = nullptr, 0; }
CALL cublasSetWorkspace_v2(Handle *of, void *at, uint64_t bytes) { return bytes == 0 ? WRONG : (of->workspace = at, 0); }
// Column-major: m is the columns of our result, n its rows. Strides from matrix to matrix are in numbers.
CALL cublasGemmStridedBatchedEx(Handle *of, int turnLeft, int turnRight, int m, int n, int k, const float *by, const uint16_t *left, int leftType, int leftStride, int64_t leftNext, const uint16_t *right, int rightType, int rightStride, int64_t rightNext, const float *content, void *to, int toType, int toStride, int64_t toNext, int count, int sums, int way) {
  if (of->stream == nullptr || of->workspace == nullptr) return NOT_READY;
  if (turnLeft != TURNED || turnRight != STRAIGHT || leftType != BF16 || rightType != BF16 || sums != SUM_F32 || way != ANY_WAY) return WRONG;
  if ((toType != BF16 && toType != F32) || *by != 1 || *content != 0 || leftNext < 0 || rightNext < 0 || toNext < 0) return WRONG;
  if (leftStride < k || rightStride < k || toStride < m) return WRONG;
  const int size = toType == F32 ? 4 : 2;
  return fakeQueue(of->stream, [=] {
    for (int i = 0; i < count; i++)
      emulated_product(right + i * rightNext, rightStride, left + i * leftNext, leftStride, static_cast<char *>(to) + i * toNext * size, toStride, toType == F32, n, m, k);
  });
}
CALL cublasGemmEx(Handle *of, int turnLeft, int turnRight, int m, int n, int k, const float *by, const uint16_t *left, int leftType, int leftStride, const uint16_t *right, int rightType, int rightStride, const float *content, void *to, int toType, int toStride, int sums, int way) {
  return cublasGemmStridedBatchedEx(of, turnLeft, turnRight, m, n, k, by, left, leftType, leftStride, 0, right, rightType, rightStride, 0, content, to, toType, toStride, 0, 1, sums, way);
}
