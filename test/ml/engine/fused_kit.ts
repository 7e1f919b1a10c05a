/** Passes of one model by the tape or by kernels, and how far the results are apart. */
import { readFileSync } from "node:fs";
import { mergeApart } from "../../../bench/training/merged.ts";
import { parseGguf } from "../../../src/lib/gguf/parse.ts";
import type { Kernels } from "../../../src/native/cuda/kernels.ts";
import { getFloats, openBackend, putBytes } from "../../../src/native/ggml/ggml.ts";
import { architectureOf } from "../../../src/workers/trainer/engine/architecture.ts";
import { openPatterns } from "../../../src/workers/trainer/engine/dropout.ts";
import { buildGraph, type GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import { type Lora, loadWeights } from "../../../src/workers/trainer/engine/weights.ts";
import { random, randomBatch } from "./kit.ts";

export function openFile(dir: string, path: string, lora: Lora, kernels: Kernels | null) {
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const backend = { ...openBackend(dir, { kind: "cpu", threads: 1 }), kernels };
  return { backend, architecture: architectureOf(header), weights: loadWeights(backend, { path, header }, lora) };
}

type Opened = Pick<ReturnType<typeof openFile>, "weights" | "backend">;

/** Random numbers, so that the adapter is not zero. */
export function fillAdapter({ weights, backend: { ggml } }: Opened, next: () => number) {
  for (const { tensor } of weights.trainable)
    putBytes(
      ggml,
      tensor,
      getFloats(ggml, tensor).map(() => next() * 0.2),
    );
}

/** Two summed micro-batches, with an adapter that is not zero. */
export function passes(opened: ReturnType<typeof openFile>, of: GraphShape, { rate = 0, draw = randomBatch } = {}) {
  const { weights, backend, architecture } = opened;
  const next = random(3);
  fillAdapter(opened, next);
  const widths = [architecture.width, architecture.forward, architecture.heads * architecture.headLength];
  const dropout = rate === 0 ? null : openPatterns(backend, widths, { rate, seed: 9 });
  const merged = of.exact ? mergeApart(opened) : null;
  const graph = buildGraph(
    { ...opened, ...(merged ? { merged: merged.locations } : {}) },
    dropout ? { ...of, dropout } : of,
  );
  weights.clearGradients();
  const seen = [1, 2].map((seed) => {
    const drawn = draw(of, architecture.vocab, seed);
    const batch = { ...drawn, dropSeeds: Uint32Array.from(drawn.ids, (id, i) => id * 7919 + i) };
    const logps = graph.forward(batch);
    const entropies = graph.entropies();
    if (of.trains) graph.backward(Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : next())));
    return [logps, entropies];
  });
  const gradients = weights.trainable.map(({ name, gradient }) => [name, getFloats(backend.ggml, gradient)] as const);
  graph.free();
  merged?.free();
  dropout?.free();
  weights.free();
  backend.close();
  return { scores: seen.flat(), gradients };
}

/** 1 - cosine, plus the difference in length: a factor would not change the angle. */
export function apart(a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array) => x.reduce((sum, value, i) => sum + value * (y[i] as number), 0);
  const [aa, bb] = [dot(a, a), dot(b, b)];
  return Math.max(1 - dot(a, b) / Math.sqrt(aa * bb), Math.abs(Math.sqrt(aa / bb) - 1) / 10);
}
