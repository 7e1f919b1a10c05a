/** Pieces with a common beginning share it: no number may change because of that. */
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { openRandom } from "../../../src/lib/random.ts";
import type { Trainee } from "../../../src/workers/trainer/trainee/trainee.ts";
import type { Piece, Scores } from "../../../src/workers/trainer/trainee/types.ts";
import { tempDir } from "../../harness.ts";
import { LORA, type Over, opened, STEP } from "./kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const random = openRandom(3);
const tokens = (length: number) => Array.from({ length }, () => Math.floor(random() * 250));
/** `count` answers to one question, of any length. */
function answers(count: number, questionTokens: number): Piece[] {
  const question = tokens(questionTokens);
  return Array.from({ length: count }, () => ({
    tokens: Int32Array.from([...question, ...tokens(1 + Math.floor(random() * 20))]),
    from: questionTokens,
  }));
}
const GROUPS = [answers(8, 17), answers(8, 40), answers(2, 5), answers(3, 2), answers(1, 12)];
const CASES: [string, Piece[][], Over][] = [
  ["groups, an adapter of a llama", GROUPS.flat().map((piece) => [piece]), {}],
  ["groups, all weights of a qwen2", GROUPS.flat().map((piece) => [piece]), { lora: null, model: { arch: "qwen2" } }],
  ["groups, layers computed again", GROUPS.flat().map((piece) => [piece]), { checkpointing: true, microDivisor: 8 }],
  ["pairs, an adapter of a qwen3", [answers(2, 20), answers(2, 9), answers(2, 3)], { model: { arch: "qwen3" } }],
  ["groups, an adapter of a gemma3", GROUPS.flat().map((piece) => [piece]), { model: { arch: "gemma3" } }],
  ["pairs, an adapter of a mistral3", [answers(2, 20), answers(2, 9)], { model: { arch: "mistral3" } }],
  ["pairs, an adapter of a phi3", [answers(2, 20), answers(2, 18)], { model: { arch: "phi3" } }],
  ["pairs, an adapter of a qwen3moe", [answers(2, 20), answers(2, 9)], { model: { arch: "qwen3moe" } }],
  ["the same pair twice", [answers(2, 20)].flatMap((pair) => [pair, pair]), {}],
];

const weightOf = (unit: number, piece: number, t: number) => Math.sin(1 + 7 * unit + 3 * piece + t);
const weigh = (first: number) => (unit: number, scores: readonly Scores[]) =>
  scores.map(({ logps }, piece) => logps.map((_, t) => 0.01 * weightOf(first + unit, piece, t)));
/** With such a large epsilon the step follows the gradient. */
const ALONG = { ...STEP, learningRate: 1, epsilon: 1, maxNorm: 0 };

function valuesOf(trainee: Trainee, lora: boolean): Float32Array[] {
  if (lora) return trainee.adapter().layers.flatMap(({ a, b }) => [a, b]);
  const read = trainee.rows();
  return [...trainee.file.header.tensors.values()].flatMap(
    ({ name, dims, elements }) => read(name, 0, elements / dims[0]!) ?? [],
  );
}

test.each(CASES)(
  "scores and gradients are those of each unit alone: %s",
  async (_, units, over) => {
    const lora = over.lora === undefined ? LORA : over.lora;
    const [shared, alone] = await Promise.all([opened(dir, { ...over, lora }), opened(dir, { ...over, lora })]);
    const before = valuesOf(shared, lora !== null).map((each) => each.slice());
    const pieces = units.flat();
    const together = await shared.score(pieces, { entropies: true });
    for (const [i, piece] of pieces.entries()) {
      const [single] = await alone.score([piece], { entropies: true });
      for (const of of ["logps", "entropies"] as const)
        single![of]!.forEach((value, t) => {
          expect(Math.abs(value - together[i]![of]![t]!)).toBeLessThan(2e-4);
        });
    }
    await shared.learn(units, weigh(0), { dropoutSeed: 1 });
    for (const [i, unit] of units.entries()) {
      const ones = unit.map((piece) => [piece]); // separate units: not even a pair shares
      for (const [p, one] of ones.entries())
        await alone.learn([one], (_unit, [scores]) => [scores!.logps.map((_l, t) => 0.01 * weightOf(i, p, t))], {
          dropoutSeed: 1,
        });
    }
    const norms = [shared.step(ALONG), alone.step(ALONG)] as const;
    expect(Math.abs(norms[0] / norms[1] - 1)).toBeLessThan(1e-4);
    const [found, wanted] = [valuesOf(shared, lora !== null), valuesOf(alone, lora !== null)];
    let [difference, size] = [0, 0];
    wanted.forEach((each, l) => {
      each.forEach((value, i) => {
        difference += (found[l]![i]! - value) ** 2;
        size += (value - before[l]![i]!) ** 2;
      });
    });
    expect(Math.sqrt(difference / size)).toBeLessThan(1e-3);
    for (const each of [shared, alone]) each.close();
  },
  60_000,
);

test("experts are frozen: a training of all weights is refused in words", async () => {
  const wanted = opened(dir, { lora: null, model: { arch: "qwen3moe" } });
  await expect(wanted).rejects.toThrow("The experts of qwen3moe models are frozen: set lora");
});
