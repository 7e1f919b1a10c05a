/** Gradients of the device against those of the CPU in F32, of the same numbers. */
import { compare, gradientsOf, LORA } from "../../bench/training/gradients.ts";
import type { ShapeOf } from "../../bench/training/model.ts";
import type { Device } from "../../src/native/ggml/ggml.ts";
import type { GraphShape } from "../../src/workers/trainer/engine/graph.ts";
import type { Lora } from "../../src/workers/trainer/engine/weights.ts";
import { type FileType, modelPair, type Part, type Setup } from "./setup.ts";

type Case = {
  what: string;
  type: FileType;
  model?: Partial<ShapeOf>;
  lora?: Partial<Lora> | null;
  rate?: number;
  graph?: Partial<GraphShape>;
  /** Answers share their question: tokens of a question and its answers, about. */
  group?: number;
};

const ROUNDED: readonly Case[] = [
  { what: "an adapter on BF16", type: "BF16" },
  { what: "an adapter on F16", type: "F16" },
  { what: "an adapter on Q8_0", type: "Q8_0" },
  { what: "an adapter on Q4_K_M", type: "Q4_K_M" },
  { what: "rank 4, alpha 32, on BF16", type: "BF16", lora: { rank: 4, alpha: 32 } },
  { what: "dropout, on BF16", type: "BF16", rate: 0.2 },
  { what: "dropout, layers computed again, on Q8_0", type: "Q8_0", rate: 0.2, graph: { checkpoints: true } },
  {
    what: "qwen2, two targets, on Q4_K_M",
    type: "Q4_K_M",
    model: { arch: "qwen2" },
    lora: { targets: ["attn_q", "attn_v"] },
  },
  { what: "qwen3, heads of 128, dropout, on F16", type: "F16", model: { arch: "qwen3", head: 128 }, rate: 0.1 },
  { what: "all weights of a BF16 model", type: "BF16", lora: null },
  {
    what: "all weights of a qwen2 in Q8_0, layers computed again",
    type: "Q8_0",
    lora: null,
    model: { arch: "qwen2" },
    graph: { checkpoints: true },
  },
];
/** So many that no block of the kernels is much longer than the others: heads of a group are added up inside it. */
const MANY: readonly Case[] = [
  { what: "many rows, on BF16", type: "BF16", graph: { rows: 48 } },
  { what: "many rows, heads of 128", type: "BF16", model: { arch: "qwen3", head: 128 }, graph: { rows: 48 } },
  { what: "many rows whose answers share their question", type: "BF16", group: 80, graph: { rows: 60 } },
];
/** Rows of several tiles of keys, whose queries skip some. */
const SHARED: readonly Case[] = [
  { what: "answers share their question, on BF16", type: "BF16", group: 120 },
  { what: "a row of two groups, on Q8_0", type: "Q8_0", group: 1100, graph: { tokens: 1500, rows: 1 } },
  {
    what: "a row of many groups, qwen2, layers computed again",
    type: "BF16",
    model: { arch: "qwen2" },
    group: 250,
    graph: { tokens: 1501, rows: 1, checkpoints: true },
  },
  {
    what: "qwen3, heads of 128",
    type: "BF16",
    model: { arch: "qwen3", head: 128 },
    group: 700,
    graph: { tokens: 900, rows: 2 },
  },
];
/** The forward pass of exact_sampling multiplies by merged weights. Its rows are multiples of 64. */
const MERGED: readonly Case[] = [
  { what: "exact sampling, on BF16", type: "BF16", graph: { exact: true, tokens: 192 } },
  {
    what: "exact sampling, answers share their question, qwen2, at a temperature",
    type: "BF16",
    model: { arch: "qwen2" },
    group: 120,
    graph: { exact: true, tokens: 192, temperature: 0.7 },
  },
  {
    what: "exact sampling, qwen3, heads of 128, two targets, layers computed again",
    type: "BF16",
    model: { arch: "qwen3", head: 128 },
    lora: { targets: ["attn_q", "ffn_down"] },
    group: 700,
    graph: { exact: true, tokens: 1024, rows: 2, checkpoints: true },
  },
];
const EXACT: readonly Case[] = [
  { what: "all weights in F32", type: "F32", lora: null },
  { what: "all weights of a qwen3 in F32", type: "F32", lora: null, model: { arch: "qwen3", tied: false } },
  { what: "an adapter on F32, dropout", type: "F32", rate: 0.2 },
];

const SHAPE: GraphShape = {
  tokens: 150,
  rows: 3,
  trains: true,
  checkpoints: false,
  attentionBlock: 1024,
  headChunk: 128,
  entropies: true,
};
const COSINE = 0.999;
const RELATIVE = 1e-3;

/** Gradients computed as in jobs. Rounding to BF16 or TF32 keeps nearly the same direction. */
export const rounded: Part = (setup) => directions(setup, [...ROUNDED, ...MANY, ...SHARED]);

/** Both checks of the passes of exact_sampling. The processor has none. */
export const merged: Part = async function* (setup) {
  if (setup.device.kind !== "cuda") return;
  yield* directions(setup, MERGED);
  yield* repetitions(setup, MERGED);
};

async function* directions(setup: Setup, cases: readonly Case[]): ReturnType<Part> {
  for (const each of cases) {
    const { fused, logps, together, worst } = await difference(setup, each);
    const value = `cosine ${together.cosine.toFixed(5)} (worst tensor ${worst.cosine.toFixed(5)}, ${worst.at}), scores ${logps.toExponential(1)} apart`;
    const ok = together.cosine >= COSINE;
    yield { what: `${each.what}, ${fused ? "our kernels" : "ggml"}`, value, target: `≥ ${COSINE}`, ok };
  }
}

/** The order of sums is fixed: the same batch in two graphs gives the same result. */
export const repeated: Part = (setup) => repetitions(setup, [...ROUNDED.slice(0, 1), ...MANY, ...SHARED]);

async function* repetitions(setup: Setup, cases: readonly Case[]): ReturnType<Part> {
  for (const each of cases) {
    const { typed } = await modelPair(setup, each.model ?? {}, each.type);
    const [first, second] = [0, 1].map(() => gradientsOf(typed, setup.device, howOf(each)));
    const differing = first!.gradients.filter(({ values }, i) => {
      const again = second!.gradients[i]!.values;
      return !Buffer.from(values.buffer).equals(Buffer.from(again.buffer));
    });
    const value = `${differing.length} of ${first!.gradients.length} gradients differ`;
    yield { what: `${each.what}, twice`, value, target: "the same bits", ok: differing.length === 0 };
  }
}

/** Without rounding to TF32 (NVIDIA_TF32_OVERRIDE=0), only the order of sums differs. */
export const exact: Part = async function* (setup) {
  for (const each of EXACT) {
    const { logps, together, worst } = await difference(setup, each);
    const value = `relative ${together.relative.toExponential(1)} (worst tensor ${worst.relative.toExponential(1)}, ${worst.at}), scores ${logps.toExponential(1)} apart`;
    yield { what: each.what, value, target: `≤ ${RELATIVE.toExponential(0)}`, ok: together.relative <= RELATIVE };
  }
};

const howOf = ({ lora, rate = 0, graph, group }: Case) => ({
  shape: { ...SHAPE, ...graph },
  rate,
  lora: lora === null ? null : { ...LORA, ...lora },
  ...(group === undefined ? {} : { group }),
});

async function difference(setup: Setup, each: Case) {
  const { typed, exact } = await modelPair(setup, each.model ?? {}, each.type);
  const of = (path: string, device: Device, over: Partial<GraphShape> = {}) =>
    gradientsOf(path, device, howOf({ ...each, graph: { ...each.graph, ...over } }));
  const [expected, found] = [of(exact, setup.cpu, { exact: false }), of(typed, setup.device)];
  const tensors = expected.gradients.map(({ name, values }, i) => ({
    at: name,
    ...compare(values, found.gradients[i]!.values),
  }));
  const worst = tensors.reduce((a, b) => (b.cosine < a.cosine || Number.isNaN(b.cosine) ? b : a));
  const all = (of: typeof found) => Float32Array.from(of.gradients.flatMap(({ values }) => [...values]));
  const together = compare(all(expected), all(found));
  return { fused: found.fused, logps: compare(expected.logps, found.logps).relative, together, worst };
}
