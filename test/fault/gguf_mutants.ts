/** Broken GGUF files by the thousand, the same ones for the same seed. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseGguf } from "../../src/lib/gguf/parse.ts";
import { makeAdapter, makeModel } from "../models.ts";

export type Seed = { bytes: Uint8Array; boundaries: readonly number[]; dataStart: number };
export type Mutant = { kind: string; bytes: Uint8Array };
export type Random = (below: number) => number;

export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** Whole files to start from. */
export function seeds(): Seed[] {
  const dir = mkdtempSync(join(tmpdir(), "verk-gguf-"));
  const small = { layers: 1, width: 32, heads: 2, kvHeads: 1, ff: 32 } as const;
  const paths = [
    makeModel(dir, { arch: "llama", type: "F16", ...small }),
    makeModel(dir, { arch: "qwen2", type: "F32", ...small }),
    makeModel(dir, { arch: "qwen3", type: "Q8_0", ...small, template: null }),
    makeAdapter(dir, { arch: "llama", type: "F16", ...small, rank: 4 }),
  ];
  const found = paths.map((path) => seedOf(new Uint8Array(readFileSync(path))));
  rmSync(dir, { recursive: true, force: true });
  return found;
}

/** Finds the boundaries of fields: a parser that gets one byte at a time stops at each of them. */
function seedOf(bytes: Uint8Array): Seed {
  const boundaries: number[] = [];
  for (let length = 0; ; ) {
    const parsed = parseGguf(bytes.subarray(0, length), bytes.byteLength);
    if (!("need" in parsed)) return { bytes, boundaries, dataStart: parsed.dataStart };
    length = parsed.need;
    boundaries.push(length);
  }
}

const pick = <T>(random: Random, from: readonly T[]): T => from[random(from.length)] as T;
const HUGE = [2n ** 63n, 2n ** 64n - 1n, 2n ** 53n, 2n ** 40n, 2n ** 32n, 2n ** 31n, 65_537n, 1n, 0n];
const ODD = [0, 1, 2, 3, 5, 7, 8, 16, 31, 33, 511, 513, 4096, 65_535, 65_536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

type Mutator = (seed: Seed, random: Random, others: readonly Seed[]) => Uint8Array;

export const MUTATORS: Record<string, Mutator> = {
  bits: ({ bytes, dataStart }, random) => {
    const out = bytes.slice();
    for (let flips = 1 + random(8); flips > 0; flips--) out[random(dataStart)]! ^= 1 << random(8);
    return out;
  },
  truncated: ({ bytes, boundaries }, random) =>
    bytes.slice(0, Math.max(0, Math.min(bytes.length, pick(random, boundaries) + random(3) - 1))),
  cut_anywhere: ({ bytes }, random) => bytes.slice(0, random(bytes.length)),
  huge_count: (seed, random) => {
    const out = seed.bytes.slice();
    const at = Math.min(pick(random, seed.boundaries), out.length - 8);
    new DataView(out.buffer).setBigUint64(at, pick(random, HUGE), true);
    return out;
  },
  wrong_type: (seed, random) => {
    const out = seed.bytes.slice();
    const at = Math.min(pick(random, seed.boundaries), out.length - 4);
    new DataView(out.buffer).setUint32(at, random(50), true);
    return out;
  },
  overlapping: (seed, random) => {
    const out = seed.bytes.slice();
    const at = seed.boundaries.at(-1 - random(6) * 6)! - 8; // the offset is the last field of a tensor
    new DataView(out.buffer).setBigUint64(at, BigInt(random(64) * 32), true);
    return out;
  },
  hyperparameter: (seed, random) => {
    const out = seed.bytes.slice();
    const view = new DataView(out.buffer);
    const spots = seed.boundaries.filter((at) => at + 8 < seed.dataStart && view.getUint32(at - 4, true) === 4);
    if (spots.length > 0) view.setUint32(pick(random, spots), pick(random, ODD), true); // the value of a uint32 key
    return out;
  },
  number: (seed, random) => {
    const out = seed.bytes.slice();
    const at = Math.min(pick(random, seed.boundaries), out.length - 4);
    new DataView(out.buffer).setFloat32(at, pick(random, [Number.NaN, -1, 0, Infinity, 1e30]), true);
    return out;
  },
  noise: (_seed, random) => {
    const out = new Uint8Array(random(4096)).map(() => random(256));
    if (random(2) === 0) out.set([0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0].slice(0, out.length));
    return out;
  },
  spliced: (seed, random, others) => {
    const other = pick(random, others);
    return joined(
      seed.bytes.slice(0, pick(random, seed.boundaries)),
      other.bytes.slice(pick(random, other.boundaries)),
    );
  },
  repeated: ({ bytes, boundaries }, random) => {
    const at = pick(random, boundaries);
    return joined(bytes.slice(0, at), bytes.slice(Math.max(0, at - random(64))));
  },
  removed: ({ bytes, boundaries }, random) => {
    const at = pick(random, boundaries);
    return joined(bytes.slice(0, at), bytes.slice(at + 1 + random(32)));
  },
};

const joined = (a: Uint8Array, b: Uint8Array) => new Uint8Array(Buffer.concat([a, b]));

export function* mutants(count: number, seed: number): Generator<Mutant> {
  const random = randomFrom(seed);
  const from = seeds();
  const kinds = Object.entries(MUTATORS);
  for (let i = 0; i < count; i++) {
    const [kind, mutate] = kinds[i % kinds.length] as (typeof kinds)[number];
    yield { kind, bytes: mutate(pick(random, from), random, from) };
  }
}
