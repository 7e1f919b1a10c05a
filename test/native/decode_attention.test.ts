import { describe, expect, test } from "bun:test";
import type { KvType } from "../../src/lib/gguf/memory.ts";
import {
  ATTEND_THREADS,
  attendShared,
  CHUNK,
  type HeadLength,
  keptBytes,
  PAGE,
  PROMPT_THREADS,
  promptShared,
  promptShares,
  SPAN,
} from "../../src/native/cuda/decode/kernels.ts";
import { NONE } from "../../src/workers/decoder/adapters/added.ts";
import {
  asBf16,
  bf16Bits,
  distance,
  fromBf16,
  fromBf16s,
  gaussians,
  openMemory,
  randomOf,
  roundedToBf16,
} from "./decode_kit.ts";
import { canCompute, openTestDevice } from "./emulation/choice.ts";

/** `window`, `cap`, `sinks`: as in kernels/decode/attention.cuh. */
type Shape = {
  heads: number;
  keyHeads: number;
  length: HeadLength;
  kvType?: KvType;
  window?: number;
  cap?: number;
  sinks?: readonly number[];
};
/** A row of the batch: its sequence, and how many keys it sees. */
type Row = { slot: number; keys: number };

const NAN = 0x7fc0;

/** Bytes with a scale in BF16 for 32 numbers, and the numbers that they mean. */
function quantized(of: Float32Array) {
  const numbers = new Int8Array(of.length);
  const scales: number[] = [];
  const meant = new Float32Array(of.length);
  for (let i = 0; i < of.length; i += 32) {
    const some = of.subarray(i, i + 32);
    const scale = fromBf16(bf16Bits(some.reduce((most, each) => Math.max(most, Math.abs(each)), 0) / 127));
    scales.push(scale);
    some.forEach((value, j) => {
      numbers[i + j] = Math.max(-127, Math.min(127, Math.round(value / scale)));
      meant[i + j] = numbers[i + j]! * scale;
    });
  }
  return { numbers, scales, meant };
}

/** Keys and values of sequences, and the same in pages in a random order. Unused places are NaN. */
function worldOf({ keyHeads, length, kvType = "f16" }: Shape, lengths: readonly number[], seed: number) {
  const random = randomOf(seed);
  const perSlot = Math.max(...lengths.map((each) => Math.ceil(each / PAGE)));
  const count = lengths.length * perSlot;
  const order = Array.from({ length: count }, (_, i) => i).sort(
    (a, b) => ((a * 7 + 3) % count) - ((b * 7 + 3) % count),
  );
  const record = keptBytes(kvType, length);
  const pages = new Uint8Array(count * 2 * keyHeads * record);
  const halves = new Uint16Array(pages.buffer).fill(NAN);
  const table = Int32Array.from(order);
  /** Puts numbers of a token into a record: `step` is the distance of two of them. */
  const put = (of: Float32Array, at: number, begin: number, step: number, place: number) => {
    if (kvType === "f16")
      return asBf16(of).forEach((bits, d) => {
        halves[at / 2 + begin + d * step] = bits;
      });
    const { numbers, scales } = quantized(of);
    numbers.forEach((number, d) => {
      pages[at + begin + d * step] = number;
    });
    scales.forEach((scale, group) => {
      halves[(at + PAGE * length) / 2 + group * PAGE + place] = bf16Bits(scale);
    });
  };
  const sequences = lengths.map((tokens, slot) => {
    const keys = roundedToBf16(gaussians(tokens * keyHeads * length, random));
    const values = roundedToBf16(gaussians(tokens * keyHeads * length, random));
    for (let t = 0; t < tokens; t++)
      for (let h = 0; h < keyHeads; h++) {
        const page = table[slot * perSlot + Math.floor(t / PAGE)]!;
        const from = (t * keyHeads + h) * length;
        const place = t % PAGE;
        put(keys.subarray(from, from + length), (page * 2 * keyHeads + h) * record, place * length, 1, place);
        put(values.subarray(from, from + length), (page * 2 * keyHeads + keyHeads + h) * record, place, PAGE, place);
      }
    if (kvType === "f16") return { keys, values };
    return { keys: quantized(keys).meant, values: quantized(values).meant };
  });
  return { pages, table, perSlot, sequences };
}

function plainAttention(
  { heads, keyHeads, length, window = 0, cap = 0, sinks }: Shape,
  rows: readonly Row[],
  world: ReturnType<typeof worldOf>,
  q: Float32Array,
) {
  const out = new Float32Array(rows.length * heads * length);
  rows.forEach(({ slot, keys: seen }, row) => {
    const { keys, values } = world.sequences[slot]!;
    for (let head = 0; head < heads; head++) {
      const keyHead = Math.floor(head / (heads / keyHeads));
      const scores = Array.from({ length: seen }, (_, t) => {
        if (window > 0 && t < seen - window) return Number.NEGATIVE_INFINITY;
        let dot = 0;
        for (let d = 0; d < length; d++)
          dot += q[(row * heads + head) * length + d]! * keys[(t * keyHeads + keyHead) * length + d]!;
        const score = dot / Math.sqrt(length);
        return cap > 0 ? cap * Math.tanh(score / cap) : score;
      });
      const sink = sinks?.[head] ?? Number.NEGATIVE_INFINITY;
      const top = Math.max(...scores, sink);
      const shares = scores.map((score) => Math.exp(score - top));
      const total = shares.reduce((a, b) => a + b, Math.exp(sink - top));
      for (let d = 0; d < length; d++) {
        let sum = 0;
        for (let t = 0; t < seen; t++) sum += shares[t]! * values[(t * keyHeads + keyHead) * length + d]!;
        out[(row * heads + head) * length + d] = sum / total;
      }
    }
  });
  return out;
}

describe.skipIf(!canCompute)("attention over pages", () => {
  const device = openTestDevice();

  type How = { chunks: number; tiles?: readonly (readonly [first: number, count: number])[] };
  function attend(shape: Shape, rows: readonly Row[], world: ReturnType<typeof worldOf>, q: Float32Array, how: How) {
    const { heads, keyHeads, length, kvType = "f16", window = 0, cap = 0, sinks } = shape;
    const memory = openMemory(device);
    const out = memory.room(rows.length * heads * length * 2);
    const values = [
      memory.put(asBf16(q)),
      ...[memory.put(world.pages), memory.put(world.table), world.perSlot, keyHeads],
      ...[memory.put(Int32Array.from(rows, ({ slot }) => slot)), 0],
      ...[memory.put(Int32Array.from(rows, ({ keys }) => keys - 1)), rows.length],
      ...[how.tiles ? memory.put(Int32Array.from(how.tiles.flat())) : 0, out],
      memory.room(rows.length * heads * how.chunks * length * 4),
      memory.room(rows.length * heads * how.chunks * 8),
      ...[heads, heads * length, how.chunks, 1 / Math.sqrt(length), how.tiles ? SPAN : 1, window, length, cap],
      sinks ? memory.put(Float32Array.from(sinks)) : 0,
    ];
    const of = kvType === "q8_0" ? (`q8_${length}` as const) : (`${length}` as const);
    if (how.tiles) {
      const grid = [how.chunks, keyHeads * promptShares(length), how.tiles.length] as const;
      const start = { grid, threads: PROMPT_THREADS, shared: promptShared(kvType, length) };
      device.launch(`attend_prompt_${of}`, start, values);
    } else {
      const grid = [how.chunks, keyHeads, rows.length] as const;
      device.launch(`attend_${of}`, { grid, threads: ATTEND_THREADS, shared: attendShared(length) }, values);
    }
    if (how.chunks > 1) device.launch(`join_${length}`, { grid: [rows.length, heads, 1], threads: length }, values);
    const result = fromBf16s(memory.halves(out, rows.length * heads * length));
    memory.close();
    return result;
  }

  test.each([
    { shape: { heads: 14, keyHeads: 2, length: 64 }, lengths: [1, 32, 33, 250] },
    { shape: { heads: 8, keyHeads: 2, length: 128 }, lengths: [7, 64, 300] },
    { shape: { heads: 2, keyHeads: 2, length: 64 }, lengths: [600] },
    { shape: { heads: 16, keyHeads: 1, length: 64 }, lengths: [65] },
    { shape: { heads: 4, keyHeads: 2, length: 96 }, lengths: [33, 300] },
    { shape: { heads: 4, keyHeads: 2, length: 256 }, lengths: [33, 300] },
    { shape: { heads: 2, keyHeads: 1, length: 64, window: 40 }, lengths: [33, 300, 562] },
    { shape: { heads: 2, keyHeads: 1, length: 128, cap: 2, sinks: [1, 4] }, lengths: [20, 300] },
    { shape: { heads: 14, keyHeads: 2, length: 64, kvType: "q8_0" }, lengths: [1, 32, 33, 250] },
    { shape: { heads: 4, keyHeads: 2, length: 96, kvType: "q8_0" }, lengths: [33, 300] },
    { shape: { heads: 8, keyHeads: 2, length: 128, kvType: "q8_0" }, lengths: [7, 64, 300] },
    { shape: { heads: 2, keyHeads: 1, length: 256, kvType: "q8_0", window: 50 }, lengths: [33, 300] },
  ] as const)("$shape, sequences of $lengths", ({ shape, lengths }) => {
    const world = worldOf(shape, lengths, 3);
    const rows = lengths.map((keys, slot) => ({ slot, keys }));
    const q = roundedToBf16(gaussians(rows.length * shape.heads * shape.length, randomOf(4), 1.5));
    const chunks = Math.ceil(Math.max(...lengths) / CHUNK);
    const got = attend(shape, rows, world, q, { chunks });
    expect(distance(got, plainAttention(shape, rows, world, q))).toBeLessThan(4e-3);
  });

  test.each([
    { heads: 6, keyHeads: 2, length: 64, chunks: 1 },
    { heads: 4, keyHeads: 1, length: 128, chunks: 2 },
    { heads: 2, keyHeads: 1, length: 64, chunks: 2, window: 275, cap: 3, sinks: [2, -1] },
    { heads: 2, keyHeads: 1, length: 96, chunks: 1, kvType: "q8_0" },
    { heads: 3, keyHeads: 1, length: 256, chunks: 1, window: 9 },
    { heads: 4, keyHeads: 1, length: 128, chunks: 1, kvType: "q8_0" },
    { heads: 2, keyHeads: 1, length: 64, chunks: 1, kvType: "q8_0", window: 100 },
    { heads: 2, keyHeads: 1, length: 256, chunks: 1, kvType: "q8_0" },
  ] as const)("a token gets the same bits alone and in a prompt: $heads heads of $length", ({ chunks, ...shape }) => {
    const spans = chunks; // a sequence of several spans, or of one
    const last = (spans - 1) * SPAN * CHUNK + 520;
    const world = worldOf(shape, [last, 290], 5);
    // Tokens of a prompt across the border of a chunk and, where there are two, of a span; then another sequence.
    const from = (spans - 1) * SPAN * CHUNK || 252;
    const prompt = Array.from({ length: 25 }, (_, i) => ({
      slot: 0,
      keys: from - 4 + i + (i > 18 ? last - from - 20 : 0),
    }));
    const rows = [...prompt, { slot: 1, keys: 290 }];
    const width = shape.heads * shape.length;
    const q = roundedToBf16(gaussians(rows.length * width, randomOf(6)));
    const tiles = [
      [0, 13],
      [13, 12],
      [25, 1],
    ] as const;
    const all = attend(shape, rows, world, q, { chunks: spans, tiles });
    expect(distance(all, plainAttention(shape, rows, world, q))).toBeLessThan(4e-3);
    for (const [i, row] of rows.entries()) {
      const own = q.slice(i * width, (i + 1) * width);
      const alone = attend(shape, [row], world, own, { chunks: Math.ceil(row.keys / CHUNK) });
      expect(alone).toEqual(all.slice(i * width, (i + 1) * width));
    }
    const few = attend(shape, rows.slice(-1), world, q.slice(25 * width), { chunks: 4 });
    expect(few).toEqual(all.slice(25 * width));
  });

  test("a row without a sequence is left alone", () => {
    const shape = { heads: 2, keyHeads: 1, length: 64 } as const;
    const world = worldOf(shape, [40], 7);
    const rows = [
      { slot: -1, keys: 1 },
      { slot: 0, keys: 40 },
    ];
    const q = roundedToBf16(gaussians(2 * 128, randomOf(8)));
    const got = attend(shape, rows, world, q, { chunks: 1 });
    expect(got.slice(0, 128).every((value) => value === 0)).toBe(true);
    expect(got.slice(128)).toEqual(attend(shape, rows.slice(1), world, q.slice(128), { chunks: 1 }));
  });

  test.each([
    { halves: 1, bias: true, norms: false, parts: 0 },
    { halves: 0, bias: false, norms: true, parts: 4 },
  ])("rotation writes queries and pages: $halves $bias $norms, $parts parts", ({ halves, bias, norms, parts }) => {
    const [heads, keyHeads, length] = [4, 2, 64] as const;
    const all = heads + 2 * keyHeads;
    const memory = openMemory(device);
    const random = randomOf(11, parts);
    const rows = [
      { slot: 1, position: 37 },
      { slot: -1, position: 0 },
      { slot: 0, position: 3 },
    ];
    const raw = roundedToBf16(gaussians(rows.length * all * length, random));
    const table = Int32Array.of(2, 3, 0, 1); // two pages for each slot
    const turns = Float32Array.from({ length: 64 * length }, (_, i) => {
      const [position, pair] = [Math.floor(i / length), (i % length) >> 1];
      const angle = position * 10_000 ** ((-2 * pair) / length);
      return i % 2 === 0 ? Math.cos(angle) : Math.sin(angle);
    });
    const biases = gaussians(all * length, random);
    const [queryNorm, keyNorm] = [gaussians(length, random), gaussians(length, random)];
    // Slices that add up to the same numbers: the last has them, the others cancel.
    const slices = Float32Array.from({ length: Math.max(1, parts) * raw.length }, (_, i) => {
      const slice = Math.floor(i / raw.length);
      return slice === parts - 1 ? raw[i % raw.length]! : slice === 0 ? 2 : slice === 1 ? -2 : 0;
    });
    const queries = memory.room(rows.length * heads * length * 2);
    const pool = memory.room(4 * 2 * keyHeads * PAGE * length * 2);
    device.launch("turn_rows", { grid: [Math.ceil((rows.length * all) / 8), 1, 1], threads: 256 }, [
      ...(parts ? [0, memory.put(slices), parts, raw.length] : [memory.put(asBf16(raw)), 0, 0, 0]),
      queries,
      ...[pool, memory.put(table), 2, keyHeads],
      ...[memory.put(Int32Array.from(rows, ({ slot }) => slot)), 0],
      ...[memory.put(Int32Array.from(rows, ({ position }) => position)), rows.length],
      ...[memory.put(turns), 0, bias ? memory.put(biases) : 0],
      ...(norms ? [memory.put(queryNorm), memory.put(keyNorm)] : [0, 0]),
      ...[heads, keyHeads, length, (halves * length) / 2, 1e-6, 0, length, keptBytes("f16", length)],
      ...NONE.values,
    ]);
    const gotQueries = fromBf16s(memory.halves(queries, rows.length * heads * length));
    const gotPages = memory.halves(pool, 4 * 2 * keyHeads * PAGE * length);
    rows.forEach(({ slot, position }, row) => {
      for (let head = 0; head < all; head++) {
        const isValue = head >= heads + keyHeads;
        const x = Array.from(
          { length },
          (_, d) => raw[(row * all + head) * length + d]! + (bias ? biases[head * length + d]! : 0),
        );
        const norm = isValue || !norms ? null : head < heads ? queryNorm : keyNorm;
        const by = 1 / Math.sqrt(x.reduce((sum, each) => sum + each * each, 0) / length + 1e-6);
        const y = x.map((each, d) => (norm ? each * by * norm[d]! : each));
        const want = [...y];
        for (let pair = 0; pair < length / 2 && !isValue; pair++) {
          const [a, b] = halves ? [pair, pair + length / 2] : [2 * pair, 2 * pair + 1];
          const [cos, sin] = [turns[position * length + 2 * pair]!, turns[position * length + 2 * pair + 1]!];
          want[a] = y[a]! * cos - y[b]! * sin;
          want[b] = y[a]! * sin + y[b]! * cos;
        }
        const page = table[slot * 2 + Math.floor(position / PAGE)]!;
        const got = want.map((_, d) => {
          if (head < heads) return gotQueries[(row * heads + head) * length + d]!;
          const base = (page * 2 * keyHeads + (head - heads)) * PAGE * length;
          const place = position % PAGE;
          return fromBf16(gotPages[base + (isValue ? d * PAGE + place : place * length + d)]!);
        });
        if (slot < 0) expect(head >= heads || got.every((value) => value === 0)).toBe(true);
        else expect(distance(got, want)).toBeLessThan(4e-3);
      }
    });
    const written = gotPages.reduce((count, bits) => count + (bits === 0 ? 0 : 1), 0);
    expect(written).toBeLessThanOrEqual(2 * 2 * keyHeads * length);
    memory.close();
  });
});
