/** Steps of adapters on one device: their gradients, and how long they take. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { keepOnlyFused } from "../../src/workers/trainer/engine/fused/weights.ts";
import { buildGraph, type GraphShape } from "../../src/workers/trainer/engine/graph.ts";
import { openOptimizer } from "../../src/workers/trainer/engine/optimizer.ts";
import type { Lora } from "../../src/workers/trainer/engine/weights.ts";
import { batchOf, compare, gradientsOf, LORA, open } from "./gradients.ts";
import { SHAPES, type ShapeOf, writeModel } from "./model.ts";

const STEP = { learningRate: 1e-4, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxNorm: 1, divisor: 1 };

type Over = Partial<GraphShape> & { rate?: number; group?: number };
const CASES: [string, Partial<ShapeOf>, Over, Partial<Lora>][] = [
  ["llama, heads of 64", {}, {}, {}],
  ["llama, layers computed again", {}, { checkpoints: true }, {}],
  ["llama, few scored, at another temperature", {}, { scored: 340, temperature: 0.7 }, {}],
  ["llama, own output layer, two targets", { tied: false }, {}, { targets: ["attn_q", "attn_v"], rank: 4, alpha: 8 }],
  ["llama, what adapters read is dropped", {}, { rate: 0.2, checkpoints: true }, {}],
  ["llama, answers share their question", {}, { group: 400, tokens: 700, rows: 2 }, {}],
  ["llama in F16", { type: "F16" }, {}, {}],
  ["qwen2, heads of 64", { arch: "qwen2" }, {}, { rslora: true, rank: 12, alpha: 6 }],
  ["qwen3, heads of 128", { arch: "qwen3", head: 128 }, {}, {}],
  ["qwen3, answers share their question", { arch: "qwen3", head: 128 }, { group: 90, checkpoints: true }, {}],
];
const SMALL: ShapeOf = {
  arch: "llama",
  vocab: 1000,
  width: 256,
  layers: 3,
  heads: 4,
  keyHeads: 2,
  head: 64,
  forward: 512,
  tied: true,
};

export type Agreement = { what: string; kernels: boolean; logps: number; cosine: number; relative: number; at: string };

/** The GPU against the CPU: relative error of the scores, and the tensor whose gradient points elsewhere the most. */
export function* agreements(dir: string): Generator<Agreement> {
  const path = join(dir, "small.gguf");
  for (const [what, model, { rate = 0, group, ...graph }, lora] of CASES) {
    writeModel(path, { ...SMALL, ...model });
    const shape = {
      tokens: 150,
      rows: 3,
      trains: true,
      checkpoints: false,
      attentionBlock: 1024,
      headChunk: 128,
      entropies: true,
      ...graph,
    };
    const how = { shape, rate, lora: { ...LORA, ...lora }, ...(group === undefined ? {} : { group }) };
    const expected = gradientsOf(path, { kind: "cpu", threads: 4 }, how);
    for (const kernels of [true, false]) {
      const found = gradientsOf(path, { kind: "cuda", index: 0, kernels }, how);
      const each = expected.gradients.map(({ name, values }, i) => ({
        at: name,
        ...compare(values, found.gradients[i]?.values as Float32Array),
      }));
      const worst = each.reduce((a, b) => (b.cosine < a.cosine || Number.isNaN(b.cosine) ? b : a));
      yield { what, kernels, logps: compare(expected.logps, found.logps).relative, ...worst };
    }
  }
}

export type Run = { shape: keyof typeof SHAPES; rows: number; checkpoints: boolean };
export type Timing = { ms: number; forward: number; backward: number; update: number; tokensPerSecond: number };

/**
 * Rows of 1024 tokens, rank 16 on all seven matrices, with AdamW. Medians; memory is what the whole card has in use.
 */
export function timeSteps(dir: string, { shape: name, rows, checkpoints }: Run): Timing & { usedMib: number } {
  const path = join(dir, `${name}.gguf`);
  writeModel(path, SHAPES[name]);
  const model = open(path, { kind: "cuda", index: 0 }, LORA);
  const only = keepOnlyFused(model.architecture, model.weights);
  const optimizer = openOptimizer(model.weights);
  const shape = { tokens: 1024, rows, trains: true, checkpoints, attentionBlock: 1024, headChunk: 2048 };
  const graph = buildGraph(model, shape);
  const batch = batchOf(shape, SHAPES[name].vocab, true);
  const count = shape.tokens * rows;
  const weights = Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : 1 / count));
  const times = Array.from({ length: 14 }, () => {
    const t0 = performance.now();
    model.weights.clearGradients();
    graph.forward(batch);
    const t1 = performance.now();
    graph.backward(weights);
    const t2 = performance.now();
    optimizer.step(STEP);
    const t3 = performance.now();
    return { ms: t3 - t0, forward: t1 - t0, backward: t2 - t1, update: t3 - t2 };
  }).slice(4);
  const usedMib = usedOf();
  optimizer.free();
  graph.free();
  only.free();
  model.weights.free();
  model.backend.close();
  rmSync(path);
  const of = (key: keyof (typeof times)[number]) => median(times.map((each) => each[key]));
  const ms = of("ms");
  const parts = { forward: of("forward"), backward: of("backward"), update: of("update") };
  return { ms, ...parts, tokensPerSecond: Math.round((count / ms) * 1e3), usedMib };
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number;

const usedOf = () =>
  Number(Bun.spawnSync(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]).stdout.toString());
