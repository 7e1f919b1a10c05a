/** Compares with PyTorch: scripts/reference/torch_reference.py made torch_reference.json once. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseGguf } from "../../../src/lib/gguf/parse.ts";
import { encodeGgufHeader, float32Value, type NewValue, textValue, uint32Value } from "../../../src/lib/gguf/write.ts";
import { getFloats, openBackend, putBytes } from "../../../src/native/ggml/ggml.ts";
import { architectureOf } from "../../../src/workers/trainer/engine/architecture.ts";
import { buildGraph } from "../../../src/workers/trainer/engine/graph.ts";
import { openOptimizer } from "../../../src/workers/trainer/engine/optimizer.ts";
import { type Lora, loadWeights, type Weights } from "../../../src/workers/trainer/engine/weights.ts";
import { batchOf, cut, type MicroBatch, microBatches } from "../../../src/workers/trainer/trainee/batches.ts";
import { tempDir } from "../../harness.ts";
import { random } from "./kit.ts";
import reference from "./torch_reference.json";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
type Case = (typeof reference.cases)[number];
type Drawn = { name: string; shape: number[]; values: Float32Array };
type Sampled = Readonly<Record<string, { norm: number; values: number[] }>>;

function draw(tensors: Case["tensors"] | Case["adapters"], firstSeed: number): Drawn[] {
  return tensors.map(([name, shape, centre, spread], i) => {
    const next = random(firstSeed + i);
    const count = (shape as number[]).reduce((a, b) => a * b, 1);
    const values = Float32Array.from({ length: count }, () => (centre as number) + (spread as number) * next());
    return { name: name as string, shape: shape as number[], values };
  });
}

/** Writes matrices as BF16 if requested: rounded to nearest even. */
function bytesOf({ shape, values }: Drawn, type: "F32" | "BF16"): Uint8Array {
  if (type === "F32" || shape.length === 1) return new Uint8Array(values.buffer);
  const bits = new Uint32Array(values.buffer);
  return new Uint8Array(Uint16Array.from(bits, (each) => (each + 0x7fff + ((each >>> 16) & 1)) >>> 16).buffer);
}

function written(given: Case, type: "F32" | "BF16"): string {
  const { shape } = reference;
  const tensors = draw(given.tensors, reference.first_seed);
  const key = (name: string) => `${given.arch}.${name}`;
  const metadata = new Map<string, NewValue>([
    ["general.architecture", textValue(given.arch)],
    [key("embedding_length"), uint32Value(shape.width)],
    [key("block_count"), uint32Value(shape.layers)],
    [key("feed_forward_length"), uint32Value(shape.forward)],
    [key("attention.head_count"), uint32Value(shape.heads)],
    [key("attention.head_count_kv"), uint32Value(shape.key_heads)],
    [key("attention.key_length"), uint32Value(given.head)],
    [key("attention.layer_norm_rms_epsilon"), float32Value(shape.epsilon)],
    [key("rope.freq_base"), float32Value(shape.rope_base)],
  ]);
  const plans = tensors.map((each) => ({
    name: each.name,
    type: each.shape.length === 1 ? "F32" : type,
    dims: each.shape,
  }));
  const chunks = [encodeGgufHeader(metadata, plans)];
  for (const tensor of tensors) {
    const bytes = bytesOf(tensor, type);
    chunks.push(bytes, new Uint8Array((32 - (bytes.length % 32)) % 32));
  }
  const path = join(dir, `${given.arch}-${type}.gguf`);
  writeFileSync(path, Buffer.concat(chunks));
  return path;
}

function open(given: Case, type: "F32" | "BF16", lora: Lora | null) {
  const path = written(given, type);
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const backend = openBackend(dir, { kind: "cpu", threads: 1 });
  const weights = loadWeights(backend, { path, header }, lora);
  if (lora)
    for (const { name, values } of draw(given.adapters, reference.lora.first_seed))
      putBytes(backend.ggml, weights.get(name), values);
  const sizes = { tokens: 64, steps: 8, shares: false, attention: "squared" } as const;
  const [micro] = microBatches([pieces(given)], sizes) as [MicroBatch];
  const shape = { tokens: micro.tokens, rows: micro.rows, scored: micro.scored, temperature: given.temperature };
  const rest = { trains: true, checkpoints: false, attentionBlock: 64, headChunk: 64 };
  const graph = buildGraph({ architecture: architectureOf(header), weights }, { ...shape, ...rest });
  const batch = batchOf(micro, null);
  const tokenWeights = new Float32Array(micro.tokens * micro.rows);
  micro.pieces.forEach(({ start }, i) => {
    tokenWeights.set(given.sequences[i]?.weights ?? [], start);
  });
  return {
    backend,
    weights,
    scores: () => {
      const logps = graph.forward(batch);
      return micro.pieces.map((piece) => cut(logps, piece));
    },
    backward: () => graph.backward(tokenWeights),
    close() {
      graph.free();
      weights.free();
      backend.close();
    },
  };
}

const pieces = (given: Case) => given.sequences.map(({ tokens }) => ({ tokens: Int32Array.from(tokens), from: 1 }));

const lossOf = (given: Case, scores: readonly Float32Array[]) =>
  scores.reduce((sum, logps, i) => {
    const { weights } = given.sequences[i] as Case["sequences"][number];
    return logps.reduce((total, logp, t) => total - logp * (weights[t] as number), sum);
  }, 0);

const at = (i: number, length: number, samples: number) => (length <= samples ? i : (i * 7919 + 13) % length);

/** Relative distance of two vectors. */
const apart = (a: readonly number[], b: readonly number[]) =>
  Math.hypot(...a.map((x, i) => x - (b[i] as number))) / Math.max(Math.hypot(...b), 1e-12);

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, x, i) => sum + x * (b[i] as number), 0);
  return dot / Math.hypot(...a) / Math.hypot(...b);
}

const CLOSE = 1e-3;

describe.each(reference.cases.map((each) => [each.arch, each] as const))("%s", (_arch, given) => {
  test("log-probabilities, loss and gradients are PyTorch's", () => {
    const model = open(given, "F32", null);
    const scores = model.scores();
    scores.forEach((logps, i) => {
      expect(apart([...logps], given.logps[i] as number[])).toBeLessThan(CLOSE);
    });
    expect(Math.abs(lossOf(given, scores) - given.loss) / Math.abs(given.loss)).toBeLessThan(CLOSE);
    model.backward();
    compareGradients(model.weights, given.gradients as Sampled, reference.samples);
    model.close();
  });

  test("ten steps of AdamW with clipping are PyTorch's", () => {
    const model = open(given, "F32", null);
    const { lr, betas, eps, weight_decay, max_norm } = reference.adamw;
    const [beta1 = 0, beta2 = 0] = betas;
    const optimizer = openOptimizer(model.weights, { decays: () => true }); // the reference has one group of weights
    for (const [loss, norm] of given.adamw.steps as [number, number][]) {
      model.weights.clearGradients();
      const found = lossOf(given, model.scores());
      expect(Math.abs(found - loss) / Math.abs(loss)).toBeLessThan(CLOSE);
      model.backward();
      const how = { learningRate: lr, beta1, beta2, epsilon: eps, weightDecay: weight_decay, maxNorm: max_norm };
      expect(Math.abs(optimizer.step({ ...how, divisor: 1 }) - norm) / norm).toBeLessThan(CLOSE);
    }
    for (const { name, tensor } of model.weights.trainable) {
      const values = getFloats(model.backend.ggml, tensor);
      const expected = (given.adamw.weights as unknown as Record<string, number[]>)[name] as number[];
      const found = expected.map((_, i) => values[at(i, values.length, reference.samples)] as number);
      expect([name, apart(found, expected) < CLOSE]).toEqual([name, true]);
    }
    const end = lossOf(given, model.scores());
    expect(Math.abs(end - given.adamw.end) / Math.abs(given.adamw.end)).toBeLessThan(CLOSE);
    optimizer.free();
    model.close();
  });

  const { rank, alpha, targets } = reference.lora;
  const lora: Lora = { rank, alpha, rslora: false, targets };
  test("gradients of adapters are PyTorch's", () => {
    const model = open(given, "F32", lora);
    const loss = lossOf(given, model.scores());
    expect(Math.abs(loss - given.lora.loss) / Math.abs(given.lora.loss)).toBeLessThan(CLOSE);
    model.backward();
    compareGradients(model.weights, given.lora.gradients as Sampled, reference.lora.samples);
    model.close();
  });

  test("gradients of adapters on a BF16 model point where PyTorch's do on F32", () => {
    const model = open(given, "BF16", lora);
    model.scores();
    model.backward();
    const [found, expected]: [number[], number[]] = [[], []];
    for (const { name, gradient } of model.weights.trainable) {
      const values = getFloats(model.backend.ggml, gradient);
      const theirs = (given.lora.gradients as Sampled)[name]?.values as number[];
      expected.push(...theirs);
      found.push(...theirs.map((_, i) => values[at(i, values.length, reference.lora.samples)] as number));
    }
    expect(found.length).toBeGreaterThan(1500);
    expect(cosine(found, expected)).toBeGreaterThan(0.999);
    model.close();
  });
});

function compareGradients({ trainable, backend }: Weights, expected: Sampled, samples: number) {
  expect(trainable.map(({ name }) => name).sort()).toEqual(Object.keys(expected).sort());
  for (const { name, gradient } of trainable) {
    const values = getFloats(backend.ggml, gradient);
    const theirs = expected[name] as Sampled[string];
    expect([name, Math.abs(Math.hypot(...values) - theirs.norm) / theirs.norm < CLOSE]).toEqual([name, true]);
    const found = theirs.values.map((_, i) => values[at(i, values.length, samples)] as number);
    expect([name, apart(found, theirs.values) < CLOSE]).toEqual([name, true]);
  }
}
