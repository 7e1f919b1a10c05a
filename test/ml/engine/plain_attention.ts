/** The attention kernels of src/native/cuda/kernels as plain loops. */
import { floats, halves, ints, range, type Take, taking, type Values } from "./plain_memory.ts";

/** Four numbers per token, three of which describe what it sees; per tile of keys, its first key and its last query. */
type Sight = { seen: Int32Array; tiles: Int32Array; heads: number; keyHeads: number; tokens: number; scale: number };
const sightOf = (take: Take): Sight => ({
  seen: ints(take()),
  tiles: ints(take()),
  heads: take(),
  keyHeads: take(),
  tokens: take(),
  scale: take(),
});
const KEYS = 64;

function keysOf({ seen, tokens }: Sight, row: number, t: number): number[] {
  const [start = 0, end = 0, own = 0] = seen.subarray((row * tokens + t) * 4, (row * tokens + t) * 4 + 3);
  return [...range(end - start).map((i) => start + i), ...range(t - own + 1).map((i) => own + i)];
}

/** One past the last query of each tile of keys; each tile must occur once. */
function lastQueries({ tiles, tokens }: Sight, rows: number): number[][] {
  const count = Math.ceil(tokens / KEYS);
  return range(rows).map((row) => {
    const ends = new Array<number>(count);
    for (const i of range(count)) {
      const [first = 0, end = 0] = tiles.subarray((row * count + i) * 2, (row * count + i) * 2 + 2);
      ends[first / KEYS] = end;
    }
    return ends;
  });
}

type Visited = { at: number; place: number; q: number; k: number; v: number; keys: number[] };

function eachQuery(sight: Sight, rows: number, length: number, visit: (of: Visited) => void) {
  const { heads, keyHeads, tokens } = sight;
  for (let row = 0; row < rows; row++)
    for (let head = 0; head < heads; head++)
      for (let t = 0; t < tokens; t++) {
        const keyHead = Math.floor(head / (heads / keyHeads));
        visit({
          at: row * tokens + t,
          place: (row * heads + head) * tokens + t,
          q: head * length,
          k: (heads + keyHead) * length,
          v: (heads + keyHeads + keyHead) * length,
          keys: keysOf(sight, row, t).map((key) => row * tokens + key),
        });
      }
}

export function attention(values: Values, length: number, rows: number) {
  const take = taking(values);
  const [qkv, stride, out, outStride, lse] = [halves(take()), take(), halves(take()), take(), floats(take())];
  const sight = sightOf(take);
  eachQuery(sight, rows, length, ({ at, place, q, k, v, keys }) => {
    const score = (key: number) =>
      range(length).reduce((s, i) => s + qkv.get(at * stride + q + i) * qkv.get(key * stride + k + i), 0) * sight.scale;
    const scores = keys.map(score);
    const top = Math.max(...scores);
    const total = scores.reduce((s, x) => s + Math.exp(x - top), 0);
    lse[place] = (top + Math.log(total)) * Math.LOG2E;
    for (let i = 0; i < length; i++) {
      const mixed = keys.reduce(
        (s, key, n) => s + Math.exp((scores[n] as number) - top) * qkv.get(key * stride + v + i),
        0,
      );
      out.set(at * outStride + q + i, mixed / total);
    }
  });
}

/** Both kernels of the backward pass; each writes its part of the result. */
export function attentionBack(
  values: Values,
  length: number,
  { rows, part }: { rows: number; part: "keys" | "queries" },
) {
  const take = taking(values);
  const [qkv, stride, given, givenStride] = [halves(take()), take(), halves(take()), take()];
  const [lse, delta, to, toStride, partsAt] = [floats(take()), floats(take()), halves(take()), take(), take()];
  const sight = sightOf(take);
  const width = (sight.heads + 2 * sight.keyHeads) * length;
  const sums = new Float32Array(rows * sight.tokens * width);
  const parts = part === "keys" && partsAt !== 0 ? floats(partsAt) : null; // for each head separately
  parts?.fill(0, 0, rows * sight.tokens * sight.heads * 2 * length);
  const ends = lastQueries(sight, rows);
  const goesBy = (at: number, key: number) =>
    at % sight.tokens < (ends[Math.floor(key / sight.tokens)]?.[Math.floor((key % sight.tokens) / KEYS)] as number);
  eachQuery(sight, rows, length, ({ at, place, q, k, v, keys }) => {
    for (const key of part === "queries" ? keys : keys.filter((each) => goesBy(at, each))) {
      let [score, ofShare] = [0, 0];
      for (let i = 0; i < length; i++) {
        score += qkv.get(at * stride + q + i) * qkv.get(key * stride + k + i);
        ofShare += given.get(at * givenStride + q + i) * qkv.get(key * stride + v + i);
      }
      const share = 2 ** (score * sight.scale * Math.LOG2E - (lse[place] as number));
      const ofScore = share * (ofShare - (delta[place] as number)) * sight.scale;
      for (let i = 0; i < length; i++) {
        sums[at * width + q + i] = (sums[at * width + q + i] as number) + ofScore * qkv.get(key * stride + k + i);
        sums[key * width + k + i] = (sums[key * width + k + i] as number) + ofScore * qkv.get(at * stride + q + i);
        sums[key * width + v + i] = (sums[key * width + v + i] as number) + share * given.get(at * givenStride + q + i);
        if (!parts) continue;
        const own = (key * sight.heads * length + q) * 2 + i;
        parts[own] = (parts[own] as number) + ofScore * qkv.get(at * stride + q + i);
        parts[own + length] = (parts[own + length] as number) + share * given.get(at * givenStride + q + i);
      }
    }
  });
  if (parts) return;
  const split = sight.heads * length;
  for (let n = 0; n < rows * sight.tokens; n++)
    for (let i = part === "queries" ? 0 : split; i < (part === "queries" ? split : width); i++)
      to.set(n * toStride + i, sums[n * width + i] as number);
}

export function attentionDelta(values: Values) {
  const take = taking(values);
  const [out, outStride, given, stride, delta] = [halves(take()), take(), halves(take()), take(), floats(take())];
  const [heads, length, perRow, tokens] = [take(), take(), take(), take()];
  for (let n = 0; n < tokens; n++)
    for (let head = 0; head < heads; head++) {
      const at = head * length;
      const sum = range(length).reduce(
        (s, i) => s + out.get(n * outStride + at + i) * given.get(n * stride + at + i),
        0,
      );
      delta[(Math.floor(n / perRow) * heads + head) * perRow + (n % perRow)] = sum;
    }
}

export function sumHeads(values: Values) {
  const take = taking(values);
  const [parts, to, toStride, heads, keyHeads, length, tokens] = [
    ...[floats(take()), halves(take())],
    ...[take(), take(), take(), take(), take()],
  ] as [Float32Array, ReturnType<typeof halves>, number, number, number, number, number];
  const group = heads / keyHeads;
  for (let n = 0; n < tokens; n++)
    for (const kind of [0, 1])
      for (let keyHead = 0; keyHead < keyHeads; keyHead++)
        for (let i = 0; i < length; i++) {
          const sum = range(group).reduce(
            (s, g) => s + (parts[((n * heads + keyHead * group + g) * 2 + kind) * length + i] as number),
            0,
          );
          to.set(n * toStride + (heads + kind * keyHeads + keyHead) * length + i, sum);
        }
}
