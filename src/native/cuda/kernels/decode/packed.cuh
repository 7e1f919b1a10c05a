// Quantized weights as products take them. They lie in an order of their own, in as many bytes as in the file: eight rows
// and a unit of numbers form a tile, in which each lane of a warp finds its numbers in pieces of sixteen bytes. They become
// whole numbers in F16, which is exact, and scales are applied to sums, or to the numbers where that is exact too. So
// weights count as the file has them.
//
// In a tile, lane group · 4 + quad has numbers of row `group`: eight of each group of 32, from quad · 8 on, or in HALVES four
// from quad · 4 on and four from 16 + quad · 4 on. Eight numbers of four bits are a word, of which bits 4 · i … and 16 + 4 · i
// … are numbers 2 · i and 2 · i + 1.
#pragma once
#include "halves.cuh"
#include "product.cuh"

constexpr uint32_t FOUR_LOW = 0x000f000f, FOUR_HIGH = 0x00f000f0, BOTH_MINUS_1024 = 0xe400e400, BOTH_ONE_HALF = 0x3c003c00;

// Bytes of a word as 1024 + byte.
__device__ __forceinline__ uint32_t from1024(uint32_t bytes, int first, int second) {
  return __byte_perm(bytes, 0x64646464, 0x4040 | first | second << 8);
}
// Four numbers from each of two places.
__device__ __forceinline__ void takeHalves(uint32_t (&to)[4], const uint16_t *first, const uint16_t *second) {
  const uint2 low = *reinterpret_cast<const uint2 *>(first), high = *reinterpret_cast<const uint2 *>(second);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}
__device__ __forceinline__ void fourWords(uint32_t *to, const uint4 &from) { to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w; }

// Q4_K: words of the groups, then for each row its block's first sixteen bytes.
struct Q4Packed {
  static constexpr int NUMBERS = 256, TILE = 1152, AHEAD = 2;
  static constexpr bool HALVES = false, MINIMA = true, IS_WHOLE = true; // IS_WHOLE: one sum for the unit
  struct Lane {
    uint32_t words[8];
    uint4 head;
    __device__ __forceinline__ void load(const uint8_t *tile, int lane) {
      fourWords(words, streamed(tile + lane * 16));
      fourWords(words + 4, streamed(tile + 512 + lane * 16));
      head = streamed(tile + 1024 + (lane >> 2) * 16);
    }
  };
  struct Factors {
    uint32_t scales[2], minima;
    float by, minus;
    __device__ __forceinline__ Factors(const Lane &of, int quad) {
      const uint4 &all = of.head;
      scales[0] = all.y & 0x3f3f3f3fu, scales[1] = (all.w & 0x0f0f0f0fu) | ((all.y >> 2) & 0x30303030u);
      const uint32_t early = all.z & 0x3f3f3f3fu, late = ((all.w >> 4) & 0x0f0f0f0fu) | ((all.z >> 2) & 0x30303030u);
      const uint32_t four = quad < 2 ? early : late, two = quad & 1 ? four >> 16 : four; // of groups 2 · quad and the next
      minima = timesPlusHalves(from1024(two, 0, 1), BOTH_ONE_HALF, BOTH_MINUS_1024);
      by = numberOfHalf(all.x & 0xffffu) * 524288.0f, minus = numberOfHalf(all.x >> 16); // numbers are times 2⁻¹⁹
    }
  };
  // Numbers times the group's scale: up to 945, so exact.
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const Lane &of, const Factors &with, int group) {
    const uint32_t word = of.words[group], later = word >> 8, scale = from1024(with.scales[group >> 2], group & 3, group & 3);
    const uint32_t low = timesPlusHalves(scale, 0x50005000, 0xf800f800);  // 32 · scale: four bits are times 2⁻²⁴
    const uint32_t high = timesPlusHalves(scale, 0x40004000, 0xe800e800); // 2 · scale: 2⁻²⁰
    to[0] = timesHalves(word & FOUR_LOW, low), to[1] = timesHalves(word & FOUR_HIGH, high);
    to[2] = timesHalves(later & FOUR_LOW, low), to[3] = timesHalves(later & FOUR_HIGH, high);
  }
};

// Q6_K: words of the low four bits, then of the high two, for two groups each: bits 2 · i … and 16 + 2 · i … are of numbers
// 2 · i and 2 · i + 1 of the first, those from 8 and 24 on of the second. Then for each row sixteen scales, plus 128, and the
// factors of all rows.
struct Q6Packed {
  static constexpr int NUMBERS = 256, TILE = 1680, AHEAD = 2;
  static constexpr bool HALVES = true, MINIMA = false, IS_WHOLE = false;
  struct Lane {
    uint32_t words[8], tops[4], scales[4], factor;
    __device__ __forceinline__ void load(const uint8_t *tile, int lane) {
      fourWords(words, streamed(tile + lane * 16));
      fourWords(words + 4, streamed(tile + 512 + lane * 16));
      fourWords(tops, streamed(tile + 1024 + lane * 16));
      fourWords(scales, streamed(tile + 1536 + (lane >> 2) * 16));
      factor = *reinterpret_cast<const uint16_t *>(tile + 1664 + (lane >> 2) * 2);
    }
  };
  struct Factors {
    float by;
    __device__ __forceinline__ Factors(const Lane &of, int) { by = numberOfHalf(of.factor) * 16777216.0f; } // numbers are times 2⁻²⁴
  };
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const Lane &of, const Factors &, int group) {
    const uint32_t word = of.words[group], top = of.tops[group >> 1];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int at = (group & 1) * 8 + 2 * i;
      const uint32_t high = at < 4 ? top << (4 - at) : top >> (at - 4);
      to[i] = timesPlusHalves(((word >> (4 * i)) & FOUR_LOW) | (high & 0x00300030u), BOTH_ONE_HALF, 0x80208020); // less 32
    }
  }
  // The scale of sixteen numbers.
  static __device__ __forceinline__ float scale(const Lane &of, int group, int half) {
    const uint32_t bits = __byte_perm(of.scales[group >> 1], 0x4b000000, 0x7540 | ((group & 1) * 2 + half));
    return __uint_as_float(bits) - 8388736.0f; // 2²³ + 128
  }
};

// Q8_0: bytes plus 128 of two groups, eight and eight; then for each row the two factors.
struct Q8Packed {
  static constexpr int NUMBERS = 64, TILE = 544, AHEAD = 4;
  static constexpr bool HALVES = false, MINIMA = false, IS_WHOLE = false;
  struct Lane {
    uint32_t words[4], factors;
    __device__ __forceinline__ void load(const uint8_t *tile, int lane) {
      fourWords(words, streamed(tile + lane * 16));
      factors = *reinterpret_cast<const uint32_t *>(tile + 512 + (lane >> 2) * 4);
    }
  };
  struct Factors {
    float by;
    __device__ __forceinline__ Factors(const Lane &, int) { by = 1; }
  };
  static __device__ __forceinline__ void eight(uint32_t (&to)[4], const Lane &of, const Factors &, int group) {
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = timesPlusHalves(from1024(of.words[group * 2 + (i >> 1)], (i & 1) * 2, (i & 1) * 2 + 1), BOTH_ONE_HALF, 0xe480e480); // less 1152
  }
  static __device__ __forceinline__ float scale(const Lane &of, int group, int) { return numberOfHalf((of.factors >> (16 * group)) & 0xffffu); }
};

// As sliceStart, at multiples of a format's units. The number of slices is a power of two: divisions would take a large part
// of a product's time.
template <class Format> __device__ __forceinline__ int packedStart(int slice, int slices, int depth) {
  return (depth / Format::NUMBERS * slice >> (__ffs(slices) - 1)) * Format::NUMBERS;
}

// A lane's part of a unit of sixteen rows.
template <class Format> struct PackedUnit {
  static constexpr int GROUPS = Format::NUMBERS / 32;
  typename Format::Lane rows[2];

  // `tiles`: those of the first unit.
  __device__ __forceinline__ void load(const uint8_t *const (&tiles)[2], int k, int lane) {
#pragma unroll
    for (int h = 0; h < 2; h++) rows[h].load(tiles[h] + static_cast<size_t>(k / Format::NUMBERS) * Format::TILE, lane);
  }
};

// Sums of a unit for tokens of NT tiles of eight.
template <class Format, int NT> struct UnitSums {
  const PackedUnit<Format> &of;
  const typename Format::Factors factors[2];
  float part[NT][4];
  __device__ __forceinline__ UnitSums(const PackedUnit<Format> &of, int quad) : of(of), factors{{of.rows[0], quad}, {of.rows[1], quad}} {
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) part[n][e] = 0;
  }
  __device__ __forceinline__ void addGroup(const uint32_t (&right)[NT][4], int group) {
    LeftRows left;
    Format::eight(left.low, of.rows[0], factors[0], group);
    Format::eight(left.high, of.rows[1], factors[1], group);
    const uint32_t first[4] = {left.low[0], left.high[0], left.low[1], left.high[1]};
    const uint32_t second[4] = {left.low[2], left.high[2], left.low[3], left.high[3]};
    if constexpr (Format::IS_WHOLE) {
#pragma unroll
      for (int n = 0; n < NT; n++) multiplyHalves(part[n], first, right[n][0], right[n][1]), multiplyHalves(part[n], second, right[n][2], right[n][3]);
    } else {
      float by[2][2];
#pragma unroll
      for (int h = 0; h < 2; h++) by[h][0] = Format::scale(of.rows[h], group, 0), by[h][1] = Format::HALVES ? Format::scale(of.rows[h], group, 1) : by[h][0];
#pragma unroll
      for (int n = 0; n < NT; n++) {
        float some[4] = {};
        multiplyHalves(some, first, right[n][0], right[n][1]);
        if constexpr (Format::HALVES) {
#pragma unroll
          for (int e = 0; e < 4; e++) part[n][e] = fmaf(by[e >> 1][0], some[e], part[n][e]), some[e] = 0;
        }
        multiplyHalves(some, second, right[n][2], right[n][3]);
#pragma unroll
        for (int e = 0; e < 4; e++) part[n][e] = fmaf(by[e >> 1][1], some[e], part[n][e]);
      }
    }
  }
  // `groupSums` are of token `group` of each tile, `scales` of tokens 2 · quad and the next.
  __device__ __forceinline__ void addTo(float (&sums)[NT][4], const uint2 (&groupSums)[NT], const float2 (&scales)[NT]) const {
#pragma unroll
    for (int n = 0; n < NT; n++) {
      float least[4] = {};
      if constexpr (Format::MINIMA) {
        const uint32_t left[4] = {factors[0].minima, factors[1].minima, factors[0].minima, factors[1].minima};
        multiplyHalves(least, left, groupSums[n].x, groupSums[n].y);
      }
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float whole = __fmul_rn(factors[e >> 1].by, part[n][e]);
        if constexpr (Format::MINIMA) whole = fmaf(-factors[e >> 1].minus, least[e], whole);
        sums[n][e] = fmaf(e & 1 ? scales[n].y : scales[n].x, whole, sums[n][e]);
      }
    }
  }
};

// Tiles of rows 0 … 7 and 8 … 15 of a tile of sixteen rows, as Product::rowAt.
template <class Format> __device__ __forceinline__ void tilesAt(const uint8_t *(&to)[2], const Product &of, int tile) {
  const size_t bytes = static_cast<size_t>(of.stride / Format::NUMBERS) * Format::TILE;
  if (of.mode == GATED) {
    const size_t at = static_cast<size_t>(min(tile, (of.rows / 2 - 1) / 8)) * bytes;
    to[0] = of.first + at, to[1] = of.second + at;
    return;
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int at = min(tile * 2 + h, (of.rows - 1) / 8) * 8;
    if (at >= of.thirdAt) to[h] = of.third + (at - of.thirdAt) / 8 * bytes;
    else if (at >= of.secondAt) to[h] = of.second + (at - of.secondAt) / 8 * bytes;
    else to[h] = of.first + at / 8 * bytes;
  }
}

// Where number k of a row lies in its tile: the lane, and the number among its eight of the group.
template <bool HALVES> __device__ __forceinline__ void laneOf(int row, int inGroup, int &lane, int &number) {
  const int quad = HALVES ? (inGroup & 15) >> 2 : inGroup >> 3;
  lane = (row & 7) * 4 + quad;
  number = HALVES ? (inGroup >> 4) * 4 + (inGroup & 3) : inGroup & 7;
}

// One number of packed weights, rounded to BF16 as the trainer decodes it. `format`: 1 Q8_0, 2 Q4_K, 3 Q6_K.
__device__ __forceinline__ float packedNumber(const uint8_t *weights, int format, int columns, int row, int k) {
  int lane, number;
  if (format == 1) {
    const uint8_t *tile = weights + (static_cast<size_t>(row / 8) * (columns / Q8Packed::NUMBERS) + k / 64) * Q8Packed::TILE;
    laneOf<false>(row, k & 31, lane, number);
    const int group = (k >> 5) & 1;
    return halfAt(tile + 512 + (row & 7) * 4 + group * 2) * static_cast<float>(tile[lane * 16 + group * 8 + number] - 128);
  }
  const int group = (k >> 5) & 7;
  if (format == 2) {
    const uint8_t *tile = weights + (static_cast<size_t>(row / 8) * (columns / 256) + k / 256) * Q4Packed::TILE;
    laneOf<false>(row, k & 31, lane, number);
    const uint32_t word = *reinterpret_cast<const uint32_t *>(tile + (group >> 2) * 512 + lane * 16 + (group & 3) * 4);
    const uint8_t *head = tile + 1024 + (row & 7) * 16, *bytes = head + 4;
    int scale, least;
    if (group < 4) scale = bytes[group] & 63, least = bytes[group + 4] & 63;
    else scale = (bytes[group + 4] & 15) | ((bytes[group - 4] >> 6) << 4), least = (bytes[group + 4] >> 4) | ((bytes[group] >> 6) << 4);
    const float four = static_cast<float>((word >> (4 * (number >> 1) + 16 * (number & 1))) & 15u);
    return halfAt(head) * static_cast<float>(scale) * four - halfAt(head + 2) * static_cast<float>(least);
  }
  const uint8_t *tile = weights + (static_cast<size_t>(row / 8) * (columns / 256) + k / 256) * Q6Packed::TILE;
  laneOf<true>(row, k & 31, lane, number);
  const uint32_t word = *reinterpret_cast<const uint32_t *>(tile + (group >> 2) * 512 + lane * 16 + (group & 3) * 4);
  const uint32_t top = *reinterpret_cast<const uint32_t *>(tile + 1024 + lane * 16 + (group >> 1) * 4);
  const int place = 16 * (number & 1), low = (word >> (place + 4 * (number >> 1))) & 15u;
  const int high = (top >> (place + (group & 1) * 8 + 2 * (number >> 1))) & 3u;
  const int scale = tile[1536 + (row & 7) * 16 + group * 2 + ((k & 31) >> 4)] - 128;
  return halfAt(tile + 1664 + (row & 7) * 2) * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
}

// Eight numbers of a lane, in the order of its operands.
__device__ __forceinline__ void decodedEight(float (&to)[8], const Q4Packed::Lane &of, int group) {
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&of.head) + 4;
  int scale, least;
  if (group < 4) scale = bytes[group] & 63, least = bytes[group + 4] & 63;
  else scale = (bytes[group + 4] & 15) | ((bytes[group - 4] >> 6) << 4), least = (bytes[group + 4] >> 4) | ((bytes[group] >> 6) << 4);
  const float by = numberOfHalf(of.head.x & 0xffffu) * static_cast<float>(scale), minus = numberOfHalf(of.head.x >> 16) * static_cast<float>(least);
#pragma unroll
  for (int i = 0; i < 8; i++) to[i] = by * static_cast<float>((of.words[group] >> (4 * (i >> 1) + 16 * (i & 1))) & 15u) - minus;
}
__device__ __forceinline__ void decodedEight(float (&to)[8], const Q6Packed::Lane &of, int group) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int place = 16 * (i & 1), low = (of.words[group] >> (place + 4 * (i >> 1))) & 15u;
    const int high = (of.tops[group >> 1] >> (place + (group & 1) * 8 + 2 * (i >> 1))) & 3u;
    to[i] = numberOfHalf(of.factor) * Q6Packed::scale(of, group, i >> 2) * static_cast<float>((low | high << 4) - 32);
  }
}
__device__ __forceinline__ void decodedEight(float (&to)[8], const Q8Packed::Lane &of, int group) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int byte = (of.words[group * 2 + (i >> 2)] >> (8 * (i & 3))) & 0xffu;
    to[i] = Q8Packed::scale(of, group, 0) * static_cast<float>(byte - 128);
  }
}

// A warp for each unit of eight rows.
template <class Format> __device__ __forceinline__ void unpackTile(const uint8_t *weights, bf16 *to, int columns, int first, int rows) {
  const int lane = threadIdx.x & 31, unit = blockIdx.y * (blockDim.x >> 5) + (threadIdx.x >> 5), units = columns / Format::NUMBERS;
  const int row = blockIdx.x * 8 + (lane >> 2), quad = lane & 3;
  if (unit >= units) return;
  typename Format::Lane part;
  part.load(weights + (static_cast<size_t>(first / 8 + blockIdx.x) * units + unit) * Format::TILE, lane);
  if (row >= rows) return;
  bf16 *out = to + static_cast<size_t>(row) * columns + unit * Format::NUMBERS;
#pragma unroll
  for (int group = 0; group < Format::NUMBERS / 32; group++) {
    float v[8];
    decodedEight(v, part, group);
    const uint32_t two[4] = {pairOf(v[0], v[1]), pairOf(v[2], v[3]), pairOf(v[4], v[5]), pairOf(v[6], v[7])};
    bf16 *at = out + group * 32;
    if constexpr (Format::HALVES) {
      *reinterpret_cast<uint2 *>(at + quad * 4) = {two[0], two[1]};
      *reinterpret_cast<uint2 *>(at + 16 + quad * 4) = {two[2], two[3]};
    } else *reinterpret_cast<uint4 *>(at + quad * 8) = make_uint4(two[0], two[1], two[2], two[3]);
  }
}

// `rows` rows of packed weights in BF16, from row `first` on, a multiple of eight. Block x: eight rows, block y: units.
extern "C" __global__ void unpack_tiles(const uint8_t *weights, bf16 *to, int format, int columns, int first, int rows) {
  letNextBegin();
  waitForPrevious();
  if (format == 1) unpackTile<Q8Packed>(weights, to, columns, first, rows);
  else if (format == 2) unpackTile<Q4Packed>(weights, to, columns, first, rows);
  else unpackTile<Q6Packed>(weights, to, columns, first, rows);
}

// Rows as they lie in a file to tiles. A thread for each lane of each tile; rows behind the last are zero. Block x: eight
// rows, block y: units of 256 numbers.
extern "C" __global__ void pack_tiles(const uint8_t *file, uint8_t *to, int format, int columns, int rows, int unused) {
  letNextBegin();
  waitForPrevious();
  const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3, row = blockIdx.x * 8 + group, tile = blockIdx.x;
  const bool inside = row < rows;
  const int per = format == 1 ? 64 : 256, unit = blockIdx.y * (blockDim.x >> 5) + (threadIdx.x >> 5), units = columns / per;
  if (unit >= units) return;
  if (format == 1) {
    uint8_t *out = to + (static_cast<size_t>(tile) * units + unit) * Q8Packed::TILE;
    const uint8_t *block = file + (static_cast<size_t>(row) * units + unit) * 68;
    for (int g = 0; g < 2; g++)
      for (int i = 0; i < 8; i++) out[lane * 16 + g * 8 + i] = inside ? static_cast<uint8_t>(block[g * 34 + 2 + quad * 8 + i] + 128) : 128;
    if (quad < 2)
      for (int i = 0; i < 2; i++) out[512 + group * 4 + quad * 2 + i] = inside ? block[quad * 34 + i] : 0;
    return;
  }
  if (format == 2) {
    uint8_t *out = to + (static_cast<size_t>(tile) * units + unit) * Q4Packed::TILE;
    const uint8_t *block = file + (static_cast<size_t>(row) * units + unit) * 144;
    for (int g = 0; g < 8; g++) {
      uint32_t word = 0;
      for (int i = 0; i < 8 && inside; i++) {
        const uint32_t four = (block[16 + (g >> 1) * 32 + quad * 8 + i] >> ((g & 1) * 4)) & 15;
        word |= four << (4 * (i >> 1) + 16 * (i & 1));
      }
      *reinterpret_cast<uint32_t *>(out + (g >> 2) * 512 + lane * 16 + (g & 3) * 4) = word;
    }
    for (int i = quad * 4; i < quad * 4 + 4; i++) out[1024 + group * 16 + i] = inside ? block[i] : 0;
    return;
  }
  uint8_t *out = to + (static_cast<size_t>(tile) * units + unit) * Q6Packed::TILE;
  const uint8_t *block = file + (static_cast<size_t>(row) * units + unit) * 210;
  uint32_t tops[4] = {};
  for (int g = 0; g < 8; g++) {
    uint32_t word = 0;
    const int half = g >> 2, of = g & 3;
    for (int i = 0; i < 8 && inside; i++) {
      const int place = (i >> 2) * 16 + quad * 4 + (i & 3);
      const uint32_t low = (block[half * 64 + (of & 1) * 32 + place] >> ((of >> 1) * 4)) & 15;
      const uint32_t high = (block[128 + half * 32 + place] >> (of * 2)) & 3;
      word |= low << (4 * (i >> 1) + 16 * (i & 1));
      tops[g >> 1] |= high << (16 * (i & 1) + (g & 1) * 8 + 2 * (i >> 1));
    }
    *reinterpret_cast<uint32_t *>(out + (g >> 2) * 512 + lane * 16 + (g & 3) * 4) = word;
  }
  for (int i = 0; i < 4; i++) *reinterpret_cast<uint32_t *>(out + 1024 + lane * 16 + i * 4) = tops[i];
  for (int i = quad * 4; i < quad * 4 + 4; i++) out[1536 + group * 16 + i] = inside ? static_cast<uint8_t>(block[192 + i] + 128) : 128;
  if (quad == 0)
    for (int i = 0; i < 2; i++) out[1664 + group * 2 + i] = inside ? block[208 + i] : 0;
}
