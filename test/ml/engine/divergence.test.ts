// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { Divergence } from "../../../src/lib/training/loss/divergence.ts";
import type { GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import type { Lora } from "../../../src/workers/trainer/engine/weights.ts";
import { tempDir } from "../../harness.ts";
import type { ModelOptions } from "../../models.ts";
import { gradientError, graphOf, openModel, random, randomBatch, SMALL, shape } from "./kit.ts";
import { shake } from "./shake.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const STUDENT: ModelOptions = { arch: "llama", type: "F32", ...SMALL };
/** Another width, and other weights. */
const TEACHER: ModelOptions = { ...STUDENT, seed: 9, width: 48, heads: 4, ff: 96 };
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: ["attn_q", "ffn_down"] };
const of = (loss: Divergence["loss"], more: Partial<Divergence> = {}): Divergence => ({
  loss,
  mix: 0.5,
  topK: null,
  ...more,
});

function open(lora: Lora | null = null, teacher: ModelOptions = TEACHER) {
  const [student, other] = [openModel(dir, STUDENT, lora), openModel(dir, teacher)];
  const close = () => {
    student.close();
    other.close();
  };
  return { student: { ...student, teacher: other }, other, close };
}

/** Inputs of the teacher's output layer for a batch, as a frozen model gives them. */
function statesOf(other: ReturnType<typeof openModel>, sized: GraphShape, seed: number): Float32Array {
  const { divergence: _, ...rest } = sized;
  const graph = graphOf(other, { ...rest, trains: false, checkpoints: false, states: true });
  graph.forward(randomBatch(sized, other.architecture.vocab, seed));
  const states = graph.states();
  graph.free();
  return states;
}

const LOSSES: [string, Divergence][] = [
  ["reverse KL", of("reverse_kl")],
  ["forward KL", of("forward_kl")],
  ["Jensen-Shannon", of("jsd", { mix: 0.3 })],
  ["reverse KL of 3 tokens", of("reverse_kl", { topK: 3 })],
  ["forward KL of 3 tokens", of("forward_kl", { topK: 3 })],
  ["Jensen-Shannon of 3 tokens", of("jsd", { topK: 3 })],
];
const WAYS: [string, Partial<GraphShape>][] = [
  ["at once", {}],
  [
    "in chunks, with a temperature and tokens without a target",
    { headChunk: 5, scored: 19, temperature: 1.3, checkpoints: true },
  ],
];

describe.each(LOSSES)("%s: the gradient is the slope of the loss", (_, divergence) => {
  test.each(WAYS)("%s", (_name, over) => {
    const { student, other, close } = open();
    const sized = shape({ ...over, divergence });
    const weights = weightsFor(sized);
    if (divergence.topK !== null) keepClear(student, sized, weights, divergence.topK);
    expect(weights.filter((weight) => weight !== 0).length).toBeGreaterThan(4);
    const taught = { states: statesOf(other, sized, 5), weights };
    expect(gradientError(student, sized, 5, taught).worst).toBeLessThan(1e-3);
    close();
  });
});

/** The loss has steps where another token becomes one of the most likely: only positions far from one have a weight. */
function keepClear(student: ReturnType<typeof openModel>, sized: GraphShape, weights: Float32Array, topK: number) {
  const all = logpsOf(student, randomBatch(sized, student.architecture.vocab, 5));
  weights.forEach((_, at) => {
    const sorted = all.map((row) => row[at]!).sort((a, b) => b - a);
    if (sorted[topK - 1]! - sorted[topK]! < 0.1) weights[at] = 0;
  });
}

/** Log-probabilities of every token at every position with a target: [token][position]. */
function logpsOf(model: ReturnType<typeof openModel>, batch: ReturnType<typeof randomBatch>): Float32Array[] {
  const graph = graphOf(model, shape());
  const all = Array.from({ length: model.architecture.vocab }, (_, token) =>
    graph.forward({ ...batch, targets: batch.targets.map((target) => (target < 0 ? -1 : token)) }),
  );
  graph.free();
  return all;
}

test("an adapter learns from a teacher with limited logits", () => {
  const { student, other, close } = open(LORA, { ...TEACHER, arch: "gemma2" });
  shake(student, 3);
  const sized = shape({ divergence: of("jsd"), headChunk: 7 });
  const taught = { states: statesOf(other, sized, 5), weights: weightsFor(sized) };
  expect(gradientError(student, sized, 5, taught).worst).toBeLessThan(1e-3);
  close();
});

test("values are those of the definitions, and a model has no distance from itself", () => {
  const { student, other, close } = open();
  const batch = randomBatch(shape(), student.architecture.vocab, 5);
  const [p, q] = [logpsOf(student, batch), logpsOf(other, batch)];
  const at = batch.targets.findIndex((target) => target >= 0);
  const sum = (of: (p: number, q: number) => number) =>
    p.reduce((total, row, token) => total + of(row[at]!, q[token]![at]!), 0);
  const middle = (p: number, q: number) => Math.log(0.3 * Math.exp(q) + 0.7 * Math.exp(p));
  const expected: [Divergence, number][] = [
    [of("reverse_kl"), sum((p, q) => Math.exp(p) * (p - q))],
    [of("forward_kl"), sum((p, q) => Math.exp(q) * (q - p))],
    [
      of("jsd", { mix: 0.3 }),
      sum((p, q) => 0.7 * Math.exp(p) * (p - middle(p, q)) + 0.3 * Math.exp(q) * (q - middle(p, q))),
    ],
  ];
  for (const [divergence, value] of expected) {
    const sized = shape({ divergence });
    const read = (model: ReturnType<typeof openModel>, states: Float32Array) => {
      const graph = graphOf(model, sized);
      graph.forward({ ...batch, taught: { states, weights: weightsFor(sized) } });
      const all = graph.divergences();
      graph.free();
      return all;
    };
    expect(read(student, statesOf(other, sized, 5))[at]).toBeCloseTo(value, 4);
    const itself = { ...other, teacher: other };
    const zeros = read(itself, statesOf(other, sized, 5));
    expect(Math.max(...zeros.map(Math.abs))).toBeLessThan(1e-5);
  }
  close();
});

function weightsFor(sized: GraphShape): Float32Array {
  const next = random(11);
  return Float32Array.from(randomBatch(sized, 2, 5).targets, (target) => (target < 0 ? 0 : next()));
}
