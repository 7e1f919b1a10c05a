/** Gradients of one batch on one device, and how two of them compare. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parseGguf } from "../../src/lib/gguf/parse.ts";
import { type Device, getFloats, openBackend, putBytes } from "../../src/native/ggml/ggml.ts";
import { architectureOf } from "../../src/workers/trainer/engine/architecture.ts";
import { openPatterns } from "../../src/workers/trainer/engine/dropout.ts";
import { canFuse } from "../../src/workers/trainer/engine/fused/fused.ts";
import { packingOf } from "../../src/workers/trainer/engine/fused/packed.ts";
import { type Batch, buildGraph, type GraphShape } from "../../src/workers/trainer/engine/graph.ts";
import { type Lora, loadWeights, loraScale } from "../../src/workers/trainer/engine/weights.ts";
import { mergeApart } from "./merged.ts";

export const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
export const LORA: Lora = { rank: 16, alpha: 32, rslora: false, targets: TARGETS };

const HEADER_BYTES = 1 << 22;
const LONGEST = 4096; // tokens

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

export function open(path: string, device: Device, lora: Lora | null, in4Bit = false) {
  const dir = dirname(path);
  const header = parseGguf(firstOf(path), statSync(path).size);
  if ("need" in header) throw new Error("the header is longer than 4 MiB");
  const backend = openBackend(dir, device);
  const architecture = architectureOf(header);
  const packing = packingOf(backend, { architecture, header, lora, longest: LONGEST, in4Bit });
  return { backend, architecture, weights: loadWeights(backend, { path, header }, lora, packing) };
}
type Opened = ReturnType<typeof open>;

/**
 * Rows of a few sequences with padding behind them, and a target at most places; `whole`: one sequence, all targets.
 */
export function batchOf({ tokens, rows }: GraphShape, vocab: number, whole: boolean): Batch {
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

/**
 * Answers to questions, as many to each as there is room for: a quarter of `group` is the question, an eighth an answer,
 * more or less. A row is full of them.
 */
export function sharedBatch({ tokens, rows }: GraphShape, vocab: number, group: number): Batch {
  const next = random(8);
  const count = tokens * rows;
  const batch = {
    ids: Int32Array.from({ length: count }, () => Math.floor(next() * vocab)),
    positions: new Int32Array(count),
    sequences: new Int32Array(count).fill(-1),
    branches: new Int32Array(count),
    targets: new Int32Array(count).fill(-1),
  };
  for (let row = 0; row < rows; row++)
    for (let [at, sequence] = [0, 0]; at < tokens; sequence++) {
      const head = Math.ceil((group / 4) * (0.5 + next()));
      for (let branch = 0; branch <= 6; branch++) {
        const length = branch === 0 ? head : Math.ceil((group / 8) * (0.5 + next()));
        for (let i = 0; i < length && at < tokens; i++, at++) {
          const place = row * tokens + at;
          batch.sequences[place] = sequence;
          batch.branches[place] = branch;
          batch.positions[place] = branch === 0 ? i : head + i;
          if (branch > 0) batch.targets[place] = Math.floor(next() * vocab);
        }
      }
    }
  return batch;
}

/**
 * B is zero at the start of a training, and then so is the gradient of A. Adapters are as strong as their weights, whatever
 * their scale: where they are much stronger, attention is so sharp that any rounding turns the gradient.
 */
function shake({ weights, backend }: Opened, lora: Lora) {
  const next = random(3);
  for (const { name, tensor, shape } of weights.trainable) {
    const spread = (name.endsWith(".lora_b") ? 2 / loraScale(lora) : 1) / Math.sqrt(shape[0] as number);
    putBytes(
      backend.ggml,
      tensor,
      getFloats(backend.ggml, tensor).map(() => (next() * 2 - 1) * spread),
    );
  }
}

/** `lora` null: of all weights, as they are in the file. `rate`: of dropout. `group`: answers share their question. */
export type How = { shape: GraphShape; lora: Lora | null; rate: number; group?: number; in4Bit?: boolean };

export function gradientsOf(path: string, device: Device, { shape, lora, rate, group, in4Bit }: How) {
  const model = open(path, device, lora, in4Bit);
  if (lora) shake(model, lora);
  const merged = shape.exact ? mergeApart(model) : null;
  const { width, forward, heads, headLength, vocab } = model.architecture;
  const widths = [width, forward, heads * headLength];
  const dropout = rate > 0 ? openPatterns(model.backend, widths, { rate, seed: 9 }) : null;
  const fused = canFuse(model, shape.tokens);
  const graph = buildGraph(
    { ...model, ...(merged ? { merged: merged.locations } : {}) },
    dropout ? { ...shape, dropout } : shape,
  );
  const drawn = group === undefined ? batchOf(shape, vocab, false) : sharedBatch(shape, vocab, group);
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
  merged?.free();
  dropout?.free();
  model.weights.free();
  model.backend.close();
  return { logps, entropies, gradients, fused };
}

export function compare(a: Float32Array, b: Float32Array) {
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
