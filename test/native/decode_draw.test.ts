// tier: all (emulated CUDA)
import { describe, expect, test } from "bun:test";
import { openRandom } from "../../src/lib/random.ts";
import { type Drawing, PLAIN } from "../../src/workers/decoder/drawing.ts";
import { logprobs } from "../../src/workers/serving/engine/sampling/logprobs.ts";
import { gaussians, randomOf } from "./decode_kit.ts";
import { distribution, openSlots } from "./draw_kit.ts";
import { canCompute, openTestDevice } from "./emulation/choice.ts";

const VOCAB = 1237; // no multiple of 8

/** The token that the rule "first whose cumulated probability exceeds the next random number" gives. */
function expected(p: Float64Array, u: number): { token: number; margin: number } {
  let sum = 0;
  for (let token = 0; token < p.length; token++) {
    const before = sum;
    sum += p[token]!;
    if (p[token]! > 0 && sum > u) return { token, margin: Math.min(u - before, sum - u) };
  }
  return { token: p.findLastIndex((each) => each > 0), margin: 0 };
}

const FILTERS: readonly (Partial<Drawing> & { name: string })[] = [
  { name: "plain" },
  { name: "cold", temperature: 0.3 },
  { name: "hot", temperature: 1.8 },
  { name: "top_k", topK: 7 },
  { name: "top_k of one", topK: 1 },
  { name: "top_p", topP: 0.8 },
  { name: "top_p of nothing", topP: 0 },
  { name: "min_p", minP: 0.1 },
  { name: "typical", typical: 0.5 },
  { name: "all filters", temperature: 0.7, topK: 40, topP: 0.9, minP: 0.02, typical: 0.95 },
  {
    name: "bias",
    logitBias: [
      [5, 8],
      [6, -100],
      [7, 9],
    ],
  },
];

describe.skipIf(!canCompute)("drawing", () => {
  const device = openTestDevice();

  test("every slot draws by its own parameters, with the random numbers of lib/random", () => {
    const slots = FILTERS.map(({ name: _, ...own }, i): Drawing => ({ ...PLAIN, ...own, seed: 40 + i }));
    const open = openSlots(device, VOCAB, slots);
    const randoms = slots.map(({ seed }) => openRandom(seed));
    let close = 0;
    for (let step = 0; step < 12; step++) {
      const rows = slots.map((_, i) => gaussians(VOCAB, randomOf(step, i), 2));
      const drawn = open.draw(rows);
      slots.forEach((slot, i) => {
        const u = Math.floor(randoms[i]!() * 2 ** 23) / 2 ** 23;
        const want = expected(distribution(rows[i]!, slot), u);
        expect(drawn[i]!.position).toBe(100 + i + step);
        if (want.margin < 1e-5) close++;
        else expect([FILTERS[i]!.name, step, drawn[i]!.token]).toEqual([FILTERS[i]!.name, step, want.token]);
      });
    }
    expect(close).toBeLessThan(4);
    open.close();
  });

  test("frequencies are those of the distribution (chi-square)", () => {
    const vocab = 24;
    const logits = gaussians(vocab, randomOf(2), 1.2);
    const of: Drawing = { ...PLAIN, temperature: 0.8, topP: 0.97 };
    const open = openSlots(
      device,
      vocab,
      Array.from({ length: 40 }, (_, i) => ({ ...of, seed: 1000 + i })),
    );
    const counts = new Float64Array(vocab);
    let total = 0;
    for (let step = 0; step < 16; step++)
      for (const { token } of open.draw(Array.from({ length: 40 }, () => logits))) {
        counts[token]!++;
        total++;
      }
    open.close();
    const p = distribution(logits, of);
    let [square, cells, rest, restCount] = [0, 0, 0, 0];
    p.forEach((each, token) => {
      if (each === 0) expect(counts[token]).toBe(0);
      else if (each * total < 8) {
        rest += each;
        restCount += counts[token]!;
      } else {
        square += (counts[token]! - each * total) ** 2 / (each * total);
        cells++;
      }
    });
    if (rest > 0) square += (restCount - rest * total) ** 2 / (rest * total);
    expect(square).toBeLessThan(cells + 4.5 * Math.sqrt(2 * cells)); // the seeds are fixed: this fails never or always
  });

  test("greedy takes the likeliest, the lowest of equals; equal tokens at a cut are kept from the lowest", () => {
    const logits = new Float32Array(VOCAB).fill(-3);
    for (const token of [900, 40, 77]) logits[token] = 2;
    const slots = [
      { ...PLAIN, temperature: 0 },
      { ...PLAIN, topK: 2, temperature: 1 },
      { ...PLAIN, topK: 5, temperature: 20 },
    ];
    const open = openSlots(device, VOCAB, slots);
    const seen = [new Set<number>(), new Set<number>(), new Set<number>()];
    for (let i = 0; i < 24; i++)
      for (const [slot, { token }] of open.draw([logits, logits, logits]).entries()) seen[slot]!.add(token);
    open.close();
    expect([...seen[0]!]).toEqual([40]);
    expect([...seen[1]!].sort((a, b) => a - b)).toEqual([40, 77]);
    expect([...seen[2]!].sort((a, b) => a - b)).toEqual([0, 1, 40, 77, 900]);
  });

  test("penalties count what the slot itself drew", () => {
    const slots: Drawing[] = [
      { ...PLAIN, temperature: 0, frequencyPenalty: 0.6, presencePenalty: 0.3 },
      { ...PLAIN, temperature: 0, repeatPenalty: 1.3, logitBias: [[3, 1]] },
      { ...PLAIN, temperature: 0 },
    ];
    const open = openSlots(device, VOCAB, slots);
    const logits = gaussians(VOCAB, randomOf(21), 2);
    logits.set([7.5, 7.0, 6.8, 5.9], 1); // tokens 1 to 4 lead
    const listed = slots.map(() => new Map<number, number>());
    for (let step = 0; step < 12; step++)
      open.draw(slots.map(() => logits)).forEach(({ token }, i) => {
        const cold = { ...slots[i]!, temperature: 0.01 };
        const p = distribution(logits, cold, i === 2 ? new Map() : listed[i]!);
        expect([i, step, token]).toEqual([i, step, p.indexOf(Math.max(...p))]);
        listed[i]!.set(token, (listed[i]!.get(token) ?? 0) + 1);
      });
    expect(listed[0]!.size).toBeGreaterThan(2);
    expect(listed[2]!.size).toBe(1);
    open.close();
  });

  test("log-probabilities are the model's, before bias and penalties", () => {
    const slots: Drawing[] = [
      { ...PLAIN, topLogprobs: 0, temperature: 0.7, logprobTemperature: 0.7 },
      { ...PLAIN, topLogprobs: 5, topK: 3, logitBias: [[9, 30]], frequencyPenalty: 0.5 },
      { ...PLAIN, topLogprobs: 20, temperature: 0 },
    ];
    const open = openSlots(device, VOCAB, slots);
    for (let step = 0; step < 3; step++) {
      const rows = slots.map((_, i) => gaussians(VOCAB, randomOf(31, step, i), 2));
      open.draw(rows).forEach(({ token, logp, alternatives }, i) => {
        const want = logprobs(rows[i]!, token, alternatives.length, slots[i]!.logprobTemperature);
        expect(logp).toBeCloseTo(want[0]!, 4);
        alternatives.forEach(([other, otherLogp], k) => {
          expect(other).toBe(want[1 + 2 * k]!);
          expect(otherLogp).toBeCloseTo(want[2 + 2 * k]!, 4);
        });
        if (i === 1) expect(token).toBe(9);
      });
    }
    open.close();
  });

  test("a mask excludes tokens; with no token left the answer is -1", () => {
    const allowed = new Set([3, 64, 1236]);
    const mask = new Uint32Array(Math.ceil(VOCAB / 32));
    for (const token of allowed) mask[token >> 5]! |= 1 << (token & 31);
    const none = new Uint32Array(mask.length);
    const slots = [0, 1, 2].map((i): Drawing => ({ ...PLAIN, masked: i < 2, temperature: 3, topP: 0.999, seed: i }));
    const open = openSlots(device, VOCAB, slots, [mask, none, none]);
    const seen = new Set<number>();
    for (let i = 0; i < 16; i++) {
      const [one, two, three] = open.draw(slots.map(() => gaussians(VOCAB, randomOf(51, i))));
      seen.add(one!.token);
      expect(two!.token).toBe(-1);
      expect(three!.token).toBeGreaterThanOrEqual(0);
    }
    open.close();
    expect([...seen].sort((a, b) => a - b)).toEqual([3, 64, 1236]);
  });

  test("what a slot draws does not depend on the others", () => {
    const one: Drawing = { ...PLAIN, seed: 5, topP: 0.9, frequencyPenalty: 0.2, topLogprobs: 2 };
    const rows = Array.from({ length: 4 }, (_, i) => gaussians(VOCAB, randomOf(61, i), 2));
    const alone = openSlots(device, VOCAB, [one]);
    const among = openSlots(device, VOCAB, [{ ...PLAIN, topK: 3 }, one, { ...PLAIN, temperature: 0 }]);
    for (const row of rows)
      expect(among.draw([rows[0]!, row, rows[1]!])[1]).toEqual({
        ...alone.draw([row])[0]!,
        position: expect.any(Number),
      });
    alone.close();
    among.close();
  });
});
