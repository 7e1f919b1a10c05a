/** Steps of adapters on one device: their gradients, and how long they take. */
import { closeSync, openSync, readSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseGguf } from "../../src/lib/gguf/parse.ts";
import { type Device, getFloats, openBackend, putBytes } from "../../src/native/ggml.ts";
import { architectureOf } from "../../src/workers/trainer/engine/architecture.ts";
import { openPatterns } from "../../src/workers/trainer/engine/dropout.ts";
import { type Batch, buildGraph, type GraphShape } from "../../src/workers/trainer/engine/graph.ts";
import { openOptimizer } from "../../src/workers/trainer/engine/optimizer.ts";
import { type Lora, loadWeights } from "../../src/workers/trainer/engine/weights.ts";
import { SHAPES, type ShapeOf, writeModel } from "./model.ts";

const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA: Lora = { rank: 16, alpha: 32, rslora: false, targets: TARGETS };
const STEP = { learningRate: 1e-4, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxNorm: 1, divisor: 1 };

const HEADER_BYTES = 1 << 22;

function firstOf(path: string): Buffer {
  const fd = openSync(path, "r");
  const bytes = Buffer.alloc(Math.min(HEADER_BYTES, statSync(path).size));
  readSync(fd, bytes, 0, bytes.length, 0);
  closeSync(fd);
  return bytes;
}

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function open(path: string, device: Device, lora: Lora) {
  const dir = dirname(path);
  const header = parseGguf(firstOf(path), statSync(path).size);
  if ("need" in header) throw new Error("the header is longer than 4 MiB");
  const backend = openBackend(dir, device);
  return { backend, architecture: architectureOf(header), weights: loadWeights(backend, { path, header }, lora) };
}
type Opened = ReturnType<typeof open>;

/** Rows of a few sequences with padding behind them, and a target at most places; `whole`: one sequence, all targets. */
function batchOf({ tokens, rows }: GraphShape, vocab: number, whole: boolean): Batch {
  const next = random(7);
  const count = tokens * rows;
  const batch = {
    ids: Int32Array.from({ length: count }, () => Math.floor(next() * vocab)),
    positions: new Int32Array(count),
    sequences: new Int32Array(count).fill(-1),
    targets: new Int32Array(count).fill(-1),
  };
  for (let row = 0; row < rows; row++) {
    let [sequence, position] = [0, 0];
    for (let t = 0; t < (whole ? tokens : tokens - 5); t++, position++) {
      const at = row * tokens + t;
      if (!whole && t > 0 && next() < 3 / tokens) [sequence, position] = [sequence + 1, 0];
      batch.sequences[at] = sequence;
      batch.positions[at] = position;
      if (whole ? t < tokens - 1 : next() < 0.7) batch.targets[at] = Math.floor(next() * vocab);
    }
  }
  return batch;
}

/** B is zero at the start of a training, and then so is the gradient of A. */
function shake({ weights, backend }: Opened) {
  const next = random(3);
  for (const { tensor, shape } of weights.trainable) {
    const spread = 1 / Math.sqrt(shape[0] as number);
    putBytes(
      backend.ggml,
      tensor,
      getFloats(backend.ggml, tensor).map(() => (next() * 2 - 1) * spread),
    );
  }
}

type How = { shape: GraphShape; lora: Lora; rate: number };

function gradientsOf(path: string, device: Device, { shape, lora, rate }: How) {
  const model = open(path, device, lora);
  shake(model);
  const { width, forward, heads, headLength, vocab } = model.architecture;
  const widths = [width, forward, heads * headLength];
  const dropout = rate > 0 ? openPatterns(model.backend, widths, { rate, seed: 9 }) : null;
  const graph = buildGraph(model, dropout ? { ...shape, dropout } : shape);
  const drawn = batchOf(shape, vocab, false);
  const batch = { ...drawn, dropSeeds: Uint32Array.from(drawn.ids, (id, i) => id * 7919 + i) };
  model.weights.clearGradients();
  const logps = graph.forward(batch);
  const entropies = graph.entropies();
  const next = random(5);
  graph.backward(Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : next() * 2 - 1)));
  const gradients = model.weights.trainable.map(({ name, gradient }) => ({
    name,
    values: getFloats(model.backend.ggml, gradient),
  }));
  graph.free();
  dropout?.free();
  model.weights.free();
  model.backend.close();
  return { logps, entropies, gradients };
}

function compare(a: Float32Array, b: Float32Array) {
  let [ab, aa, bb, apart] = [0, 0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i] as number, b[i] as number];
    ab += x * y;
    aa += x * x;
    bb += y * y;
    apart += (x - y) ** 2;
  }
  return { cosine: ab / Math.sqrt(aa * bb), relative: Math.sqrt(apart / aa) };
}

const CASES: [string, Partial<ShapeOf>, Partial<GraphShape> & { rate?: number }, Partial<Lora>][] = [
  ["llama, heads of 64", {}, {}, {}],
  ["llama, layers computed again", {}, { checkpoints: true }, {}],
  ["llama, few scored, at another temperature", {}, { scored: 340, temperature: 0.7 }, {}],
  ["llama, own output layer, two targets", { tied: false }, {}, { targets: ["attn_q", "attn_v"], rank: 4, alpha: 8 }],
  ["llama, what adapters read is dropped", {}, { rate: 0.2, checkpoints: true }, {}],
  ["llama in F16", { type: "F16" }, {}, {}],
  ["qwen2, heads of 64", { arch: "qwen2" }, {}, { rslora: true, rank: 12, alpha: 6 }],
  ["qwen3, heads of 128", { arch: "qwen3", head: 128 }, {}, {}],
];
const SMALL: ShapeOf = {
  ...{ arch: "llama", vocab: 1000, width: 256, layers: 3, heads: 4, keyHeads: 2, head: 64, forward: 512, tied: true },
};

export type Agreement = { what: string; kernels: boolean; logps: number; cosine: number; relative: number; at: string };

/** The GPU against the CPU: relative error of the scores, and the tensor whose gradient points elsewhere the most. */
export function* agreements(dir: string): Generator<Agreement> {
  const path = join(dir, "small.gguf");
  for (const [what, model, { rate = 0, ...graph }, lora] of CASES) {
    writeModel(path, { ...SMALL, ...model });
    const shape = {
      ...{ tokens: 150, rows: 3, trains: true, checkpoints: false, attentionBlock: 1024, headChunk: 128 },
      ...{ entropies: true, ...graph },
    };
    const how = { shape, rate, lora: { ...LORA, ...lora } };
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

/** Rows of 1024 tokens, rank 16 on all seven matrices, with AdamW. Medians; memory is what the whole card has in use. */
export function timeSteps(dir: string, { shape: name, rows, checkpoints }: Run): Timing & { usedMib: number } {
  const path = join(dir, `${name}.gguf`);
  writeModel(path, SHAPES[name]);
  const model = open(path, { kind: "cuda", index: 0 }, LORA);
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
