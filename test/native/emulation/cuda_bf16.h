// BF16 on the host, for kernels that the emulation compiles. Only what the kernels use. Rounds to the nearest even.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 from) {
  const uint32_t bits = static_cast<uint32_t>(from.bits) << 16;
  float to;
  memcpy(&to, &bits, 4);
  return to;
}
inline __nv_bfloat16 __float2bfloat16(float from) {
  uint32_t bits;
  memcpy(&bits, &from, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(0x7fff)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
struct float2 {
  float x, y;
};
inline float2 __bfloat1622float2(__nv_bfloat162 from) { return {__bfloat162float(from.x), __bfloat162float(from.y)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16(x), __float2bfloat16(y)}; }
