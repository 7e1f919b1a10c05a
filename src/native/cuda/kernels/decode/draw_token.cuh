// The kernel that draws; its parts are in draw.cuh.
#pragma once
#include "draw.cuh"

// The token with the highest value, the lowest of equals; its value is -∞ if no token is allowed.
template <class Value> __device__ __forceinline__ int likeliest(DrawShared &shared, const float *row, int vocab, const Value &value, float &top) {
  int best = 0x7fffffff;
  top = -INFINITY;
  const auto take = [&](float x, int i) {
    if (x > top || (x == top && i < best)) top = x, best = i;
  };
  forEach(row, 0, vocab, threadIdx.x, DRAW_THREADS, [&](float x, int i) { take(value(x, i), i); });
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) {
    const float x = __shfl_xor_sync(~0u, top, by);
    const int i = __shfl_xor_sync(~0u, best, by);
    take(x, i);
  }
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared.tops[threadIdx.x >> 5] = top, shared.at[threadIdx.x >> 5] = best;
  __syncthreads();
  for (int w = 0; w < DRAW_WARPS; w++) take(shared.tops[w], shared.at[w]);
  return best;
}

// The first token whose cumulated weight exceeds `random` times the sum, in the order of the vocabulary.
template <class Weight> __device__ __forceinline__ int inverse(DrawShared &shared, const float *row, int vocab, float random, const Weight &weight) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  int from = 0, to = vocab;
  float target = 0;
  for (int level = 0; level < 3; level++) {
    const Segment own(from, to, warp);
    float sum = 0;
    forEach(row, own.begin, own.end, lane, 32, [&](float x, int i) { sum += weight(x, i); });
    sum = warpSum(sum);
    __syncthreads();
    if (lane == 0) shared.sums[warp] = sum;
    __syncthreads();
    if (level == 0) {
      float total = 0;
      for (int w = 0; w < DRAW_WARPS; w++) total += shared.sums[w];
      target = random * total;
    }
    int chosen = 0;
    float before = 0, upTo = 0;
    bool found = false;
    for (int w = 0; w < DRAW_WARPS && !found; w++) {
      if (shared.sums[w] > 0) chosen = w, before = upTo; // the last of them, if rounding lets none exceed the target
      upTo += shared.sums[w];
      found = shared.sums[w] > 0 && upTo > target;
    }
    target -= before;
    const Segment next(from, to, chosen);
    from = next.begin, to = next.end;
  }
  if (warp == 0) {
    int token = from;
    float before = 0;
    for (int at = from; at < to; at += 32) {
      const float own = at + lane < to ? weight(row[at + lane], at + lane) : 0;
      float upTo = own;
      for (int by = 1; by < 32; by <<= 1) {
        const float more = __shfl_up_sync(~0u, upTo, by);
        if (lane >= by) upTo += more;
      }
      const unsigned exceeds = __ballot_sync(~0u, own > 0 && before + upTo > target), any = __ballot_sync(~0u, own > 0);
      if (any != 0) token = at + 31 - __clz(any);
      if (exceeds != 0) {
        token = at + __ffs(exceeds) - 1;
        break;
      }
      before += __shfl_sync(~0u, upTo, 31);
    }
    if (lane == 0) shared.token = token;
  }
  __syncthreads();
  return shared.token;
}

// Σ exp(-d) and Σ d · exp(-d) over the tokens that a cut keeps.
template <class Nats> __device__ __forceinline__ void entropyOf(const float *row, int vocab, const Nats &nats, const Cut &cut, float &total, float &entropy) {
  float sum = 0, weighted = 0;
  forEach(row, 0, vocab, threadIdx.x, DRAW_THREADS, [&](float x, int i) {
    const float d = nats(x, i);
    if (!cut.keeps(distanceOf(d), i)) return;
    const float share = __expf(-d);
    sum += share, weighted += share * d;
  });
  total = blockSum(sum);
  entropy = logf(total) + blockSum(weighted) / total;
}

extern "C" __global__ __launch_bounds__(DRAW_THREADS) void draw_tokens(Draw of) {
  __shared__ DrawShared shared;
  letNextBegin();
  waitForPrevious();
  const int slot = of.board[of.rowSlots + blockIdx.x];
  if (slot < 0) return;
  int *words = of.board + of.drawings + static_cast<size_t>(slot) * DRAWING_WORDS;
  Drawing at = *reinterpret_cast<const Drawing *>(words);
  float *row = of.logits + static_cast<size_t>(blockIdx.x) * of.stride;
  const uint32_t *mask = of.masks + static_cast<size_t>(slot) * of.maskWords;

  const float by = 1 / at.logpTemperature;
  float all = 0, highest = 0;
  if (at.alternatives >= 0) all = logSum(shared, row, of.vocab, by, highest);
  if (at.alternatives > 0)
    putAlternatives(shared, row, of.vocab, by, at, highest, all, of.alternatives + static_cast<size_t>(blockIdx.x) * MOST_ALTERNATIVES * 2);
  const bool changes = at.biases > 0 || at.listed > 0;
  if (changes) changeLogits(of, row, slot, at);

  const auto value = [&](float x, int i) { return at.masked && !(mask[i >> 5] >> (i & 31) & 1) ? -INFINITY : x; };
  float top = highest * at.logpTemperature;
  int token = 0;
  // The highest logit is known from the log-probabilities, unless something has changed since.
  if (at.temperature == 0 || at.alternatives < 0 || changes || at.masked) token = likeliest(shared, row, of.vocab, value, top);
  const bool possible = top > -INFINITY;
  if (possible && at.temperature > 0) {
    const auto nats = [&](float x, int i) { return top - value(x, i); };
    const auto one = [](float, int) { return Amount{1}; };
    const auto share = [&](float x, int i) { return shareOf(nats(x, i)); };
    Cut near, typical;
    const auto nearOnes = [&](float x, int i) {
      const uint32_t d = distanceOf(nats(x, i));
      return near.keeps(d, i) ? d : NEVER_DRAWN;
    };
    if (at.topK > 0 && at.topK < of.vocab) near = nearest(shared.bins, row, of.vocab, at.topK, nearOnes, one);
    float total = 1, entropy = 0, logTotal = 0;
    const auto surprise = [&](float x, int i) { return distanceOf(fabsf(nats(x, i) + logTotal - entropy)); };
    const auto amountFor = [&](float p, float sum) { return static_cast<Amount>(p * sum * WHOLE_SHARE); };
    if (at.typical < 1 || at.topP < 1) entropyOf(row, of.vocab, nats, near, total, entropy), logTotal = logf(total);
    const bool byTypical = at.typical < 1;
    if (byTypical) {
      const auto typicalOnes = [&](float x, int i) { return nearOnes(x, i) == NEVER_DRAWN ? NEVER_DRAWN : surprise(x, i); };
      typical = nearest(shared.bins, row, of.vocab, amountFor(at.typical, total), typicalOnes, share);
    }
    const auto kept = [&](float x, int i) {
      const uint32_t d = nearOnes(x, i);
      return d != NEVER_DRAWN && byTypical && !typical.keeps(surprise(x, i), i) ? NEVER_DRAWN : d;
    };
    if (at.topP < 1) {
      float sum = 0;
      if (byTypical) {
        forEach(row, 0, of.vocab, threadIdx.x, DRAW_THREADS, [&](float x, int i) { sum += kept(x, i) == NEVER_DRAWN ? 0 : __expf(-nats(x, i)); });
        total = blockSum(sum);
      }
      near = nearest(shared.bins, row, of.vocab, amountFor(at.topP, total), kept, share); // keeps nothing that the cut before did not
    }
    const float lowest = at.minP > 0 ? top + logf(at.minP) : -INFINITY, per = 1 / at.temperature;
    const float random = nextRandom(at.random);
    const bool cut = at.topK > 0 || byTypical || at.topP < 1;
    // Without a cut, distances need not be computed: that is most of the work of a row.
    if (cut)
      token = inverse(shared, row, of.vocab, random, [&](float x, int i) {
        return x >= lowest && kept(x, i) != NEVER_DRAWN ? __expf((x - top) * per) : 0.0f;
      });
    else
      token = inverse(shared, row, of.vocab, random, [&](float x, int i) {
        const float own = value(x, i);
        return own >= lowest ? __expf((own - top) * per) : 0.0f;
      });
  }
  float logp = 0;
  if (possible && at.alternatives >= 0) logp = __fmul_rn(changes ? unchanged(shared, of, row, slot, at, token) : row[token], by) - all;
  const bool lists = at.frequency != 0 || at.presence != 0 || at.repeat != 1;
  if (possible && lists) remember(shared, of, slot, at.listed, token, words + 16);
  if (threadIdx.x != 0) return;
  int *result = of.results + 4 * blockIdx.x;
  result[0] = possible ? token : -1, result[1] = __float_as_int(logp), result[2] = slot;
  result[3] = of.board[of.slotPositions + slot]++;
  of.board[of.slotTokens + slot] = possible ? token : 0;
  for (int i = 0; i < 4; i++) words[12 + i] = static_cast<int>(at.random[i]);
}
