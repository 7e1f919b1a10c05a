/** Gradients of the device against those of the CPU in F32, of the same numbers. */
import { compare, gradientsOf, LORA } from "../../bench/training/gradients.ts";
import type { ShapeOf } from "../../bench/training/model.ts";
import type { Device } from "../../src/native/ggml.ts";
import type { GraphShape } from "../../src/workers/trainer/engine/graph.ts";
import type { Lora } from "../../src/workers/trainer/engine/weights.ts";
import { type FileType, modelPair, type Part, type Place } from "./place.ts";

type Case = {
  what: string;
  type: FileType;
  model?: Partial<ShapeOf>;
  lora?: Partial<Lora> | null;
  rate?: number;
  graph?: Partial<GraphShape>;
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
const EXACT: readonly Case[] = [
  { what: "all weights in F32", type: "F32", lora: null },
  { what: "all weights of a qwen3 in F32", type: "F32", lora: null, model: { arch: "qwen3", tied: false } },
  { what: "an adapter on F32, dropout", type: "F32", rate: 0.2 },
];

const SHAPE: GraphShape = {
  ...{ tokens: 150, rows: 3, trains: true, checkpoints: false, attentionBlock: 1024, headChunk: 128, entropies: true },
};
const COSINE = 0.999;
const RELATIVE = 1e-3;

/** As jobs compute. What rounds in BF16 or TF32 points nearly the same way. */
export const rounded: Part = async function* (place) {
  for (const each of ROUNDED) {
    const { fused, logps, together, worst } = await difference(place, each);
    const value = `cosine ${together.cosine.toFixed(5)} (worst tensor ${worst.cosine.toFixed(5)}, ${worst.at}), scores ${logps.toExponential(1)} apart`;
    const ok = together.cosine >= COSINE;
    yield { what: `${each.what}, ${fused ? "our kernels" : "ggml"}`, value, target: `≥ ${COSINE}`, ok };
  }
};

/** Where products are not rounded to TF32 (NVIDIA_TF32_OVERRIDE=0) there is nothing but the order of sums. */
export const exact: Part = async function* (place) {
  for (const each of EXACT) {
    const { logps, together, worst } = await difference(place, each);
    const value = `relative ${together.relative.toExponential(1)} (worst tensor ${worst.relative.toExponential(1)}, ${worst.at}), scores ${logps.toExponential(1)} apart`;
    yield { what: each.what, value, target: `≤ ${RELATIVE.toExponential(0)}`, ok: together.relative <= RELATIVE };
  }
};

async function difference(place: Place, { type, model = {}, lora, rate = 0, graph }: Case) {
  const { typed, exact } = await modelPair(place, model, type);
  const how = { shape: { ...SHAPE, ...graph }, rate, lora: lora === null ? null : { ...LORA, ...lora } };
  const of = (path: string, device: Device) => gradientsOf(path, device, how);
  const [expected, found] = [of(exact, place.cpu), of(typed, place.device)];
  const each = expected.gradients.map(({ name, values }, i) => ({
    at: name,
    ...compare(values, found.gradients[i]!.values),
  }));
  const worst = each.reduce((a, b) => (b.cosine < a.cosine || Number.isNaN(b.cosine) ? b : a));
  const all = (of: typeof found) => Float32Array.from(of.gradients.flatMap(({ values }) => [...values]));
  const together = compare(all(expected), all(found));
  return { fused: found.fused, logps: compare(expected.logps, found.logps).relative, together, worst };
}
