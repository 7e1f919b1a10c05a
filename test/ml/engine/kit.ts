/** A tiny model of random weights in the training engine, on the CPU. */
import { readFileSync } from "node:fs";
import { parseGguf } from "../../../src/lib/gguf/parse.ts";
import { getFloats, openBackend, putBytes } from "../../../src/native/ggml/ggml.ts";
import { architectureOf } from "../../../src/workers/trainer/engine/architecture.ts";
import { type Batch, buildGraph, type GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import type { Taught } from "../../../src/workers/trainer/engine/inputs.ts";
import type { Model } from "../../../src/workers/trainer/engine/transformer.ts";
import { type Lora, loadWeights, type Trainable } from "../../../src/workers/trainer/engine/weights.ts";
import { type ModelOptions, makeModel } from "../../models.ts";

export const SMALL = { layers: 2, width: 32, heads: 4, kvHeads: 2, ff: 64, context: 64 } as const;

export function openModel(dir: string, options: ModelOptions, lora: Lora | null = null) {
  const path = makeModel(dir, options);
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const backend = openBackend(dir, { kind: "cpu", threads: 1 });
  const architecture = architectureOf(header);
  const weights = loadWeights(backend, { path, header }, lora);
  const close = () => {
    weights.free();
    backend.close();
  };
  return { path, architecture, weights, backend, close };
}
export type Opened = ReturnType<typeof openModel> & { teacher?: Model };

/** Uniform in [-1, 1), always the same for a seed. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

export const shape = (over: Partial<GraphShape> = {}): GraphShape => ({
  tokens: 12,
  rows: 2,
  trains: true,
  checkpoints: false,
  attentionBlock: 1024,
  headChunk: 1024,
  ...over,
});

/** Rows with two sequences each and some padding at the end. */
export function randomBatch({ tokens, rows }: GraphShape, vocab: number, seed = 1): Batch {
  const next = random(seed);
  const count = tokens * rows;
  const batch = {
    ids: new Int32Array(count),
    positions: new Int32Array(count),
    sequences: new Int32Array(count).fill(-1),
    targets: new Int32Array(count).fill(-1),
  };
  for (let row = 0; row < rows; row++) {
    const first = 3 + ((row * 2) % (tokens - 5));
    for (let t = 0; t < tokens - 1; t++) {
      const at = row * tokens + t;
      batch.ids[at] = Math.floor(((next() + 1) / 2) * vocab);
      batch.sequences[at] = t < first ? 0 : 1;
      batch.positions[at] = t < first ? t : t - first;
      const isLast = t === first - 1 || t === tokens - 2;
      if (!isLast) batch.targets[at] = Math.floor(((next() + 1) / 2) * vocab);
    }
  }
  return batch;
}

/** The same, but the second sequence of each row branches: a common beginning and three continuations. */
export function branchingBatch(of: GraphShape, vocab: number, seed = 1): Batch {
  const batch = randomBatch(of, vocab, seed);
  const branches = new Int32Array(batch.ids.length);
  for (let row = 0; row < of.rows; row++) {
    const own = [...batch.sequences.keys()].filter(
      (at) => Math.floor(at / of.tokens) === row && batch.sequences[at] === 1,
    );
    const common = Math.ceil(own.length / 4) - (row % 2);
    const each = Math.ceil((own.length - common) / 3);
    own.forEach((at, i) => {
      if (i < common) return;
      branches[at] = 1 + Math.floor((i - common) / each);
      batch.positions[at] = common + ((i - common) % each);
    });
  }
  return { ...batch, branches };
}

export const graphOf = (model: Opened, of: GraphShape) => buildGraph(model, of);

/** Returns the largest relative difference between the gradient along random directions and the slope of the loss. */
export function gradientError(model: Opened, of: GraphShape, seed = 5, taught?: Taught): { worst: number; at: string } {
  const { weights, architecture } = model;
  const graph = graphOf(model, of);
  const batch = randomBatch(of, architecture.vocab, seed);
  if (of.noise) {
    const draw = random(seed + 2);
    batch.noise = Float32Array.from({ length: batch.ids.length * architecture.width }, () => 0.3 * draw());
  }
  if (taught) batch.taught = taught;
  if (of.dropout) batch.dropSeeds = Uint32Array.from(batch.ids, (_, i) => seed * 1000 + i);
  const next = random(seed + 1);
  const tokenWeights = Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : next()));
  const loss = () => {
    const logps = graph.forward(batch);
    const ofTargets = logps.reduce((sum, logp, i) => sum - logp * (tokenWeights[i] as number), 0);
    if (!taught) return ofTargets;
    return graph.divergences().reduce((sum, each, i) => sum + each * (taught.weights[i] as number), ofTargets);
  };
  weights.clearGradients();
  loss();
  graph.backward(tokenWeights);
  let found = { worst: 0, at: "" };
  for (const each of weights.trainable) {
    const error = directionalError(model, each, loss, next);
    if (error > found.worst) found = { worst: error, at: each.name };
  }
  graph.free();
  return found;
}

function directionalError(
  { backend }: Opened,
  { tensor, gradient }: Trainable,
  loss: () => number,
  next: () => number,
) {
  const { ggml } = backend;
  const before = getFloats(ggml, tensor);
  const slope = getFloats(ggml, gradient);
  const norm = Math.hypot(...slope);
  if (norm === 0) return 0;
  // Half along the gradient, half at random: a perpendicular direction would have almost no slope.
  const direction = slope.map((g) => g / norm + next() / Math.sqrt(slope.length));
  const length = Math.hypot(...direction);
  const expected = slope.reduce((sum, g, i) => sum + (g * (direction[i] as number)) / length, 0);
  const along = (by: number) => {
    putBytes(
      ggml,
      tensor,
      before.map((value, i) => value + (by * (direction[i] as number)) / length),
    );
    return loss();
  };
  // Four points: the error is of the fourth order of the step. Small steps suffer from rounding, large ones from
  // curvature. The best size differs between tensors, and a wrong gradient agrees with none.
  const errors = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1].map((step) => {
    const measured = (8 * (along(step) - along(-step)) - (along(2 * step) - along(-2 * step))) / (12 * step);
    return Math.abs(measured - expected) / Math.max(Math.abs(expected), 1e-3);
  });
  putBytes(ggml, tensor, before);
  return Math.min(...errors);
}
