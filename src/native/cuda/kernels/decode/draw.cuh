// Draws the next token of every row, each by the parameters of its slot: one block a row, all of them in one launch. The
// order is llama.cpp's: bias, penalties, top_k, typical, top_p, min_p, temperature. Parameters lie in the board, where a
// command of the host changes them between two steps.
#pragma once
#include "select.cuh"

// The words of a slot, as src/workers/decoder/board.ts writes them.
struct Drawing {
  float temperature; // 0: the likeliest token
  int topK;          // 0: off
  float topP, minP, typical;
  float frequency, presence, repeat;
  float logpTemperature;
  int alternatives; // log-probabilities of this many likeliest tokens; below zero: of no token
  int masked;       // 1: only tokens whose bit is set
  int biases;
  uint32_t random[4]; // the state of lib/random.ts
  int listed;         // tokens in the slot's list, which penalties need
  int unused[3];
};
constexpr int DRAWING_WORDS = 20;

struct Draw {
  float *logits;        // [row][stride]
  int *board;
  const int *biases;    // [slot][mostBiases]: token, bias
  int *listed;          // [slot][mostListed]: token, how often
  float *saved;         // [slot][mostBiases + mostListed]: logits before they were changed
  const uint32_t *masks; // [slot][maskWords]
  int *results;         // [row]: token (-1: none is allowed), log-probability, slot, position
  int *alternatives;    // [row][MOST_ALTERNATIVES]: token, log-probability
  int rowSlots, slotTokens, slotPositions, drawings; // where these begin in the board
  int vocab, stride, mostBiases, mostListed, maskWords, unused;
};
constexpr int MOST_ALTERNATIVES = 20;

struct DrawShared {
  Bins bins;
  float tops[DRAW_WARPS], sums[DRAW_WARPS], more[DRAW_WARPS];
  int at[DRAW_WARPS], token, known, found;
  float value[64];
  int candidate[64];
};

// The next number of the slot's generator, in steps of 2⁻²³ (as batched_draw.ts takes it).
__device__ __forceinline__ float nextRandom(uint32_t (&state)[4]) {
  const uint32_t sum = state[0] + state[1] + state[3];
  state[3]++;
  state[0] = state[1] ^ (state[1] >> 9);
  state[1] = state[2] + (state[2] << 3);
  state[2] = ((state[2] << 21) | (state[2] >> 11)) + sum;
  return static_cast<float>(sum >> 9) * 1.1920928955078125e-7f;
}

// log Σ exp(x · by), and the highest x · by. The order and the roundings are those of the trainer's target_logps.
__device__ __forceinline__ float logSum(DrawShared &shared, const float *row, int vocab, float by, float &highest) {
  const int whole = vocab / 8 * 8;
  float top = -INFINITY, sum = 0;
  const auto take = [&](float x) {
    if (x > top) sum = __fmul_rn(sum, __expf(top - x)), top = x;
    sum += __expf(x - top);
  };
  constexpr int AHEAD = 4, STEP = DRAW_THREADS * 8; // pieces that are on their way at once
  for (int first = threadIdx.x * 8; first < whole; first += AHEAD * STEP) {
    float v[AHEAD][8];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
      if (first + u * STEP < whole) eightFloats(row + first + u * STEP, v[u]);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      if (first + u * STEP >= whole) break;
#pragma unroll
      for (int k = 0; k < 8; k++) take(__fmul_rn(v[u][k], by));
    }
  }
  for (int i = whole + threadIdx.x; i < vocab; i += DRAW_THREADS) take(__fmul_rn(row[i], by));
  highest = top;
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared.tops[threadIdx.x >> 5] = highest;
  __syncthreads();
  for (int i = 0; i < DRAW_WARPS; i++) highest = fmaxf(highest, shared.tops[i]);
  const float shrink = top == -INFINITY ? 0 : __expf(top - highest);
  return highest + logf(blockSum(__fmul_rn(sum, shrink)));
}

__device__ __forceinline__ void putAlternatives(DrawShared &shared, const float *row, int vocab, float by, const Drawing &at, float highest, float all, int *to) {
  const auto distance = [&](float x, int) { return distanceOf(highest - x * by); };
  const Cut cut = nearest(shared.bins, row, vocab, at.alternatives, distance, [](float, int) { return Amount{1}; });
  __syncthreads();
  if (threadIdx.x == 0) shared.found = 0;
  __syncthreads();
  forEach(row, 0, vocab, threadIdx.x, DRAW_THREADS, [&](float x, int i) {
    if (!cut.keeps(distance(x, i), i)) return;
    const int place = atomicAdd(&shared.found, 1);
    if (place < 64) shared.candidate[place] = i, shared.value[place] = x * by;
  });
  __syncthreads();
  const int found = min(shared.found, 64), own = threadIdx.x;
  if (own >= found) return;
  int rank = 0;
  for (int i = 0; i < found; i++) {
    const float a = shared.value[i], b = shared.value[own];
    rank += a > b || (a == b && shared.candidate[i] < shared.candidate[own]);
  }
  if (rank < at.alternatives) to[2 * rank] = shared.candidate[own], to[2 * rank + 1] = __float_as_int(shared.value[own] - all);
}

__device__ __forceinline__ void changeLogits(const Draw &of, float *row, int slot, const Drawing &at) {
  const int *biases = of.biases + static_cast<size_t>(slot) * of.mostBiases * 2;
  const int *listed = of.listed + static_cast<size_t>(slot) * of.mostListed * 2;
  float *saved = of.saved + static_cast<size_t>(slot) * (of.mostBiases + of.mostListed);
  __syncthreads();
  for (int i = threadIdx.x; i < at.biases; i += DRAW_THREADS) {
    const int token = biases[2 * i];
    saved[i] = row[token];
    row[token] += __int_as_float(biases[2 * i + 1]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < at.listed; i += DRAW_THREADS) {
    const int token = listed[2 * i];
    const float was = row[token];
    saved[of.mostBiases + i] = was;
    const float repeated = at.repeat == 1 ? was : was <= 0 ? was * at.repeat : was / at.repeat;
    row[token] = repeated - (static_cast<float>(listed[2 * i + 1]) * at.frequency + at.presence);
  }
  __syncthreads();
}

// The model's own logit of a token: what it was before the first change.
__device__ __forceinline__ float unchanged(DrawShared &shared, const Draw &of, const float *row, int slot, const Drawing &at, int token) {
  const int *biases = of.biases + static_cast<size_t>(slot) * of.mostBiases * 2;
  const int *listed = of.listed + static_cast<size_t>(slot) * of.mostListed * 2;
  const float *saved = of.saved + static_cast<size_t>(slot) * (of.mostBiases + of.mostListed);
  __syncthreads();
  if (threadIdx.x == 0) shared.known = 0x7fffffff;
  __syncthreads();
  for (int i = threadIdx.x; i < at.biases; i += DRAW_THREADS)
    if (biases[2 * i] == token) atomicMin(&shared.known, i); // a bias comes before a penalty of the same token
  for (int i = threadIdx.x; i < at.listed; i += DRAW_THREADS)
    if (listed[2 * i] == token) atomicMin(&shared.known, of.mostBiases + i);
  __syncthreads();
  return shared.known == 0x7fffffff ? row[token] : saved[shared.known];
}

// Counts the token in the slot's list.
__device__ __forceinline__ void remember(DrawShared &shared, const Draw &of, int slot, int count, int token, int *words) {
  int *listed = of.listed + static_cast<size_t>(slot) * of.mostListed * 2;
  __syncthreads();
  if (threadIdx.x == 0) shared.found = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += DRAW_THREADS)
    if (listed[2 * i] == token) listed[2 * i + 1]++, shared.found = 1;
  __syncthreads();
  if (threadIdx.x != 0 || shared.found || count >= of.mostListed) return;
  listed[2 * count] = token, listed[2 * count + 1] = 1;
  *words = count + 1;
}
