// The kernels of tiles.cuh for decoding: few tokens meet many weights. All rows of weights of a block meet the same tokens,
// which are therefore read from memory once for 64 rows, not for 16 as in few.cuh. The last blocks sum what adapters add.
#pragma once
#include "adapters.cuh"
#include "tiles.cuh"

template <int BN, int WM, int WN> __device__ __forceinline__ void multiplyTilesOf64(const Product &of, const Adapters &adapters) {
  const int sum = static_cast<int>(blockIdx.x) - (of.rows + 63) / 64;
  if (sum < 0) return multiplyTiles<64, BN, WM, WN>(of);
  DYNAMIC_SHARED(shared);
  if (blockIdx.y == 0 && blockIdx.z == 0) sumRanks(adapters, sum, of.x, of.xStride, of.depth, of.slices, reinterpret_cast<float *>(shared));
}

extern "C" __global__ __launch_bounds__(128, 4) void product_rows_32(Product of, Adapters with) { multiplyTilesOf64<32, 2, 2>(of, with); }
extern "C" __global__ __launch_bounds__(128, 3) void product_rows_64(Product of, Adapters with) { multiplyTilesOf64<64, 2, 2>(of, with); }
