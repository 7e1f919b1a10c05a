// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Trainee } from "../../../src/workers/trainer/trainee/trainee.ts";
import type { Scores } from "../../../src/workers/trainer/trainee/types.ts";
import { tempDir } from "../../harness.ts";
import { alone, LORA, likelihood, meanOf, opened, STEP, somePieces } from "./kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const pieces = somePieces(24);

const apart = (a: readonly Scores[], b: readonly Scores[], of: "logps" | "entropies" = "logps") =>
  Math.max(...a.flatMap((each, i) => [...(each[of] ?? [])].map((x, t) => Math.abs(x - (b[i]?.[of]?.[t] as number)))));

async function after(trainee: Trainee, steps: number, how: { dropoutSeed?: number } = {}) {
  for (let step = 0; step < steps; step++) {
    await trainee.learn(alone(pieces), likelihood(pieces), { dropoutSeed: how.dropoutSeed ?? step });
    trainee.step(STEP);
  }
  return trainee.score(pieces);
}

describe("scores", () => {
  test("are those of each piece alone, independent of other pieces in its micro-batch", async () => {
    const trainee = await opened(dir);
    const together = await trainee.score(pieces);
    for (const [i, piece] of pieces.entries()) {
      const [single] = await trainee.score([piece]);
      expect(single?.logps).toHaveLength(piece.tokens.length - piece.from);
      expect(apart([single as Scores], [together[i] as Scores])).toBeLessThan(1e-4);
    }
    trainee.close();
  });

  test("are the same bits the second time, and with another size of the micro-batches up to rounding", async () => {
    const trainee = await opened(dir);
    const once = await trainee.score(pieces, { entropies: true });
    expect(await trainee.score(pieces, { entropies: true })).toEqual(once);
    const smaller = await opened(dir, { microDivisor: 64 });
    expect(apart(await smaller.score(pieces), once)).toBeLessThan(1e-4);
    for (const each of [trainee, smaller]) each.close();
  });

  test("a temperature divides the logits: entropy grows with it, and a high one makes all tokens equal", async () => {
    const [plain, warm, hot] = await Promise.all([1, 2, 1e6].map((temperature) => opened(dir, { temperature })));
    const mean = async (trainee: Trainee | undefined) => {
      const scores = (await trainee?.score(pieces, { entropies: true })) as Scores[];
      return meanOf(scores.map(({ entropies }) => ({ logps: entropies as Float32Array, entropies: null })));
    };
    expect(await mean(warm)).toBeGreaterThan(await mean(plain));
    const { vocab } = (hot as Trainee).architecture;
    expect(await mean(hot)).toBeCloseTo(Math.log(vocab), 4);
    expect(meanOf(await (hot as Trainee).score(pieces))).toBeCloseTo(-Math.log(vocab), 4);
    for (const each of [plain, warm, hot]) each?.close();
  });

  test("entropy is that of the distribution: over all tokens, p·log p adds up to it", async () => {
    const trainee = await opened(dir);
    const { vocab } = trainee.architecture;
    const prefix = [5, 9, 77];
    const all = Array.from({ length: vocab }, (_, token) => ({ tokens: Int32Array.of(...prefix, token), from: 3 }));
    const scores = await trainee.score(all, { entropies: true });
    const logps = scores.map((each) => each.logps[0] as number);
    const expected = -logps.reduce((sum, logp) => sum + logp * Math.exp(logp), 0);
    for (const { entropies } of scores) expect(entropies?.[0]).toBeCloseTo(expected, 3);
    trainee.close();
  });

  test("of the reference stay the same after the adapter has learned, and need an adapter", async () => {
    const trainee = await opened(dir);
    const before = await trainee.score(pieces);
    const learnt = await after(trainee, 5);
    expect(apart(learnt, before)).toBeGreaterThan(0.1);
    expect(apart(await trainee.score(pieces, { reference: true }), before)).toBeLessThan(1e-5);
    trainee.close();
    const full = await opened(dir, { lora: null });
    expect(full.score(pieces, { reference: true })).rejects.toThrow("needs an adapter");
    full.close();
  });
});

describe("learning", () => {
  test.each([
    ["an adapter", { lora: LORA }],
    ["an adapter with layers computed again", { lora: LORA, checkpointing: true }],
    ["an adapter with dropout", { lora: { ...LORA, dropout: 0.2 } }],
    ["all weights", { lora: null }],
  ] as const)("%s makes the trained tokens more likely, with the same bits each time", async (_name, over) => {
    const [one, other] = await Promise.all([opened(dir, over), opened(dir, over)]);
    const before = meanOf(await one.score(pieces));
    const learnt = await after(one, 20);
    expect(meanOf(learnt)).toBeGreaterThan(before + 0.5);
    expect(await after(other, 20)).toEqual(learnt);
    for (const each of [one, other]) each.close();
  });

  test("adds up the same gradient in small micro-batches as in large ones", async () => {
    const [large, small] = await Promise.all([opened(dir), opened(dir, { microDivisor: 64 })]);
    expect(apart(await after(large, 1), await after(small, 1))).toBeLessThan(1e-3);
    for (const each of [large, small]) each.close();
  });

  test("weighs the pieces of a unit together, with scores that belong to them, and yields in between", async () => {
    let turns = 0;
    const trainee = await opened(dir, { microDivisor: 64, onTurn: () => turns++ });
    const scores = await trainee.score(pieces);
    const pairs = Array.from({ length: pieces.length / 2 }, (_, i) => pieces.slice(2 * i, 2 * i + 2));
    const seen = new Set<number>();
    turns = 0;
    await trainee.learn(
      pairs,
      (unit, both) => {
        seen.add(unit);
        expect(apart(both, scores.slice(2 * unit, 2 * unit + 2))).toBeLessThan(1e-4);
        return both.map(({ logps }) => new Float32Array(logps.length));
      },
      { dropoutSeed: 1 },
    );
    expect([seen.size, turns > 4]).toEqual([pairs.length, true]);
    expect(trainee.step(STEP)).toBe(0);
    trainee.close();
  });

  test("noise on the embeddings follows its seed, changes what is learned, and is in no score", async () => {
    const noisy = () => opened(dir, { noiseAlpha: 5 });
    const [plain, one, same, another] = [await opened(dir), await noisy(), await noisy(), await noisy()];
    expect(apart(await one.score(pieces), await plain.score(pieces))).toBeLessThan(1e-5);
    const learnt = await after(one, 3, { dropoutSeed: 1 });
    expect(await after(same, 3, { dropoutSeed: 1 })).toEqual(learnt);
    expect(apart(await after(another, 3, { dropoutSeed: 2 }), learnt)).toBeGreaterThan(1e-4);
    expect(apart(await after(plain, 3, { dropoutSeed: 1 }), learnt)).toBeGreaterThan(1e-4);
    for (const each of [plain, one, same, another]) each.close();
  });

  test("dropout follows its seed", async () => {
    const over = { lora: { ...LORA, dropout: 0.5 } };
    const [one, same, another] = await Promise.all([opened(dir, over), opened(dir, over), opened(dir, over)]);
    const learnt = await after(one, 3, { dropoutSeed: 1 });
    expect(await after(same, 3, { dropoutSeed: 1 })).toEqual(learnt);
    expect(apart(await after(another, 3, { dropoutSeed: 2 }), learnt)).toBeGreaterThan(1e-3);
    for (const each of [one, same, another]) each.close();
  });
});

describe("saved state", () => {
  test.each([
    ["an adapter", LORA, "adamw_torch"],
    ["all weights", null, "adamw_torch"],
    ["all weights with 8-bit moments", null, "adamw_8bit"],
  ] as const)("%s resumes as if there had been no interruption", async (name, lora, optim) => {
    const [whole, first, second] = await Promise.all([1, 2, 3].map((seed) => opened(dir, { lora, seed, optim })));
    if (!whole || !first || !second) throw new Error("none");
    const to = join(dir, name.replaceAll(" ", "-"));
    mkdirSync(to);
    await first.load(await savedTo(whole, join(dir, `start-${name}`)), { moments: false });
    const expected = await after(whole, 6);
    await after(first, 3);
    await first.save(to);
    await second.load(to, { moments: true });
    expect(second.steps).toBe(3);
    for (let step = 3; step < 6; step++) {
      await second.learn(alone(pieces), likelihood(pieces), { dropoutSeed: step });
      second.step(STEP);
    }
    expect(await second.score(pieces)).toEqual(expected);
    for (const each of [whole, first, second]) each.close();
  });

  test("8-bit moments take less memory, and learn nearly the same", async () => {
    const [exact, bytes] = await Promise.all(
      (["adamw_torch", "adamw_8bit"] as const).map((optim) => opened(dir, { lora: null, optim })),
    );
    const saved = exact!.memoryBytes - bytes!.memoryBytes;
    expect(saved / (exact!.trainableParameters * 8)).toBeWithin(0.3, 0.8); // small tensors keep F32
    const [one, two] = [await after(exact!, 6), await after(bytes!, 6)];
    expect(apart(one, two)).toBeWithin(1e-9, 0.5);
    for (const each of [exact, bytes]) each!.close();
  });

  test("of another rank or model is refused by name", async () => {
    const trainee = await opened(dir);
    const to = await savedTo(trainee, join(dir, "rank"));
    const other = await opened(dir, { lora: { ...LORA, r: 8 } });
    expect(other.load(to, { moments: true })).rejects.toThrow(/lora_a is F32 4 × 32 .* needs F32 8 × 32/);
    const full = await opened(dir, { lora: null });
    expect(full.load(to, { moments: true })).rejects.toThrow("has no tensor token_embd.weight");
    for (const each of [trainee, other, full]) each.close();
  });
});

async function savedTo(trainee: Trainee, to: string): Promise<string> {
  mkdirSync(to);
  await trainee.save(to);
  return to;
}
