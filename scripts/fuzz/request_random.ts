/** Chances from a seed, and values that break readers. */
export type Chance = ReturnType<typeof chanceFrom>;

/** Mixes all bits: a plain congruential generator repeats its low ones. */
export function chanceFrom(seed: number) {
  let state = seed | 0;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(random() * n);
  return {
    random,
    below,
    one: <T>(items: readonly T[]): T => items[below(items.length)] as T,
    /** One time in so many. */
    rarely: (n: number) => below(n) === 0,
    times: <T>(most: number, make: (i: number) => T): T[] => Array.from({ length: below(most + 1) }, (_, i) => make(i)),
  };
}

const TEXTS = [
  "",
  " ",
  "x",
  "\u0000",
  "\ud800",
  "\u202e\u2066",
  "\ufeff",
  "😀",
  "é",
  "'; DROP TABLE workspaces;--",
  "../../etc/passwd",
  "/workspace/../x",
  "%00",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "NaN",
  "-0",
  "1e999",
  "\r\nx: y",
  "latest",
  "auto",
  "ds_x@latest",
  "http://127.0.0.1:9/x",
  "https://127.0.0.1/x",
  "s3://bucket/key",
  "2026-01-01T00:00:00.000Z",
  "9999-12-31T23:59:59Z",
];
const NUMBERS = [0, -0, 1, -1, 0.5, 1e308, -1e308, 1e-308, 2 ** 31, 2 ** 53, 2 ** 53 + 2, 1e21];

export const textFrom = ({ one, below, rarely }: Chance): string => {
  const text = one(TEXTS);
  return rarely(8) ? text.repeat(1 + below(rarely(20) ? 60_000 : 300)) : text;
};

export function valueFrom(chance: Chance, depth = 0): unknown {
  const { one, below, times } = chance;
  const kind = below(depth > 4 ? 4 : 6);
  if (kind === 0) return one([null, true, false]);
  if (kind === 1) return one(NUMBERS);
  if (kind < 4) return textFrom(chance);
  if (kind === 4) return times(5, () => valueFrom(chance, depth + 1));
  return Object.fromEntries(times(5, () => [textFrom(chance).slice(0, 60), valueFrom(chance, depth + 1)]));
}
