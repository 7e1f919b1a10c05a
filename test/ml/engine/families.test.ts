// tier: all (trains models)
/** Every trainable family: scores are llama.cpp's, gradients are slopes, and a learned adapter serves as it was learned. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { ARCHITECTURES, type Family, HAS_EXPERTS } from "../../../src/lib/gguf/architecture.ts";
import type { Architecture } from "../../../src/workers/trainer/engine/architecture.ts";
import type { Experts, Window } from "../../../src/workers/trainer/engine/families.ts";
import { openOptimizer } from "../../../src/workers/trainer/engine/optimizer.ts";
import type { Lora } from "../../../src/workers/trainer/engine/weights.ts";
import { adapterOf } from "../../../src/workers/trainer/results/adapter.ts";
import { writeAdapterGguf } from "../../../src/workers/trainer/results/adapter_gguf.ts";
import { tempDir } from "../../harness.ts";
import type { ModelOptions } from "../../models.ts";
import { logpsOf } from "../../serving/reference.ts";
import { gradientError, graphOf, type Opened, openModel, random, randomBatch, SMALL, shape } from "./kit.ts";
import { shake } from "./shake.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const OLD = ["llama", "qwen2", "qwen3"]; // engine.test.ts has more about these
const FAMILIES = ARCHITECTURES.filter((name) => !OLD.includes(name));
const model = (arch: Family, type: ModelOptions["type"] = "F32"): ModelOptions => ({
  arch,
  type,
  ...SMALL,
  layers: arch === "smollm3" ? 4 : 2,
});
const JOINED = ["attn_qkv", "attn_output", "ffn_up", "ffn_down"];
const SEPARATE = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const lora = (arch: Family): Lora => ({
  rank: 4,
  alpha: 8,
  rslora: false,
  targets: arch === "phi3" ? JOINED : SEPARATE,
});
const TOKENS = 24;

/** The same random text, and the log-probabilities of its tokens. */
function scoresOf(opened: Opened, targetsOf: (ids: Int32Array) => Int32Array) {
  const of = shape({ rows: 1, tokens: TOKENS, trains: false });
  const graph = graphOf(opened, of);
  const next = random(11);
  const ids = Int32Array.from({ length: TOKENS }, () => Math.floor(((next() + 1) / 2) * opened.architecture.vocab));
  const targets = targetsOf(ids);
  const sequences = new Int32Array(TOKENS);
  const scores = graph.forward({ ids, positions: Int32Array.from(ids.keys()), sequences, targets });
  graph.free();
  return { ids, targets, scores };
}

/** Relative difference from llama.cpp, over the next, the most likely and the second most likely token. */
function apart(opened: Opened, adapter?: string) {
  const { ids } = scoresOf(opened, (given) => given);
  const theirs = logpsOf(opened.path, ids, adapter);
  const ranked = theirs.map((logps) => [...logps.keys()].sort((a, b) => (logps[b] ?? 0) - (logps[a] ?? 0)));
  const [next, first, second] = [
    Int32Array.from(ids, (_, i) => ids[i + 1] ?? 0),
    Int32Array.from(ranked, ([best = 0]) => best),
    Int32Array.from(ranked, ([, other = 0]) => other),
  ].map((targets) => {
    const { scores } = scoresOf(opened, () => targets);
    const expected = [...targets].map((target, i) => theirs[i]?.[target] as number);
    const difference = Math.hypot(...expected.map((value, i) => value - (scores[i] as number)));
    return { scores, expected, apart: difference / Math.hypot(...expected) };
  }) as [Row, Row, Row];
  const leads = first.expected.map((value, i) => value - (second.expected[i] as number));
  const disagreed = leads.filter(
    (lead, i) => lead > 0.05 && !((first.scores[i] as number) > (second.scores[i] as number)),
  );
  return { worst: Math.max(next.apart, first.apart, second.apart), disagreed: disagreed.length };
}
type Row = { scores: Float32Array; expected: number[]; apart: number };

const plain = { embedding: 1, residual: 1, logits: 1 };
const FEATURES: [Family, string, (of: Architecture) => Partial<Architecture>][] = [
  ["mistral3", "YaRN", ({ yarn }) => ({ yarn: { ...yarn, mix: 0 } })],
  ["mistral3", "the logarithmic factor", ({ yarn }) => ({ yarn: { ...yarn, attentionFactor: 1 } })],
  ["mistral3", "the temperature", () => ({ temperature: null })],
  ["smollm3", "the layer without rotation", ({ rotates }) => ({ rotates: rotates.map(() => true) })],
  ...(["embedding", "residual", "logits"] as const).map((name): (typeof FEATURES)[number] => [
    "granite",
    `the scale of ${name}`,
    ({ scales }) => ({ scales: { ...scales, [name]: plain[name] } }),
  ]),
  ["granite", "the scale of scores", ({ scales }) => ({ scales: { ...scales, scores: 1 / Math.sqrt(8) } })],
  ["phi3", "the part that is rotated", ({ rotated }) => ({ rotated: rotated / 2 })],
  ["phi3", "the long factors", ({ yarn }) => ({ yarn: { ...yarn, originalContext: 1000 } })],
  ["phi3", "the attention factor", ({ yarn }) => ({ yarn: { ...yarn, attentionFactor: 1 } })],
  ["gemma2", "the limit of scores", ({ caps }) => ({ caps: { ...caps, scores: 0 } })],
  ["gemma2", "the limit of logits", ({ caps }) => ({ caps: { ...caps, logits: 0 } })],
  ["gemma2", "the window", () => ({ window: null })],
  ["gemma3", "the window", ({ window }) => ({ window: { ...(window as Window), size: 1000 } })],
  ["gemma3", "the rotation in windows", (of) => ({ window: { ...(of.window as Window), ropeBase: of.ropeBase } })],
  ["gemma3", "the scaled rotation", () => ({ ropeScale: 1 })],
  ["gemma3", "norms of heads", () => ({ headNorms: false })],
  ["gemma3", "norms of results", () => ({ postNorms: false })],
  ["gemma3", "gelu", () => ({ activation: "silu" })],
  ["qwen3moe", "the number of chosen experts", ({ experts }) => ({ experts: { ...(experts as Experts), used: 1 } })],
  ["gpt-oss", "the window", () => ({ window: null })],
  ["gpt-oss", "YaRN", ({ yarn }) => ({ yarn: { ...yarn, mix: 0 } })],
  ["gpt-oss", "its gate", ({ experts }) => ({ experts: { ...(experts as Experts), activation: "silu" } })],
];

test.each(FEATURES)("%s: %s makes a difference", (arch, _name, over) => {
  const opened = openModel(dir, model(arch), lora(arch));
  const without = { ...opened, architecture: { ...opened.architecture, ...over(opened.architecture) } };
  expect(apart(without).worst).toBeGreaterThan(4e-3);
  opened.close();
});

describe.each(FAMILIES)("%s", (arch) => {
  const types = ["F32", "Q8_0", ...(arch === "gpt-oss" ? (["MXFP4"] as const) : [])] as const;
  test.each(types)("scores are llama.cpp's in %s, and so is the most likely token", (type) => {
    const opened = openModel(dir, model(arch, type), lora(arch));
    const { worst, disagreed } = apart(opened);
    expect(worst).toBeLessThan(type === "F32" ? 2e-3 : 3e-2);
    expect(disagreed).toBe(0);
    opened.close();
  });

  test.each([
    ["all weights", null, {}],
    [
      "all weights, in parts",
      null,
      { checkpoints: true, attentionBlock: 5, headChunk: 7, temperature: 0.7, scored: 20 },
    ],
    ["an adapter", "lora", { checkpoints: true, temperature: 1.3 }],
  ] as const)("gradients of %s are the slope of the loss", (_name, kind, over) => {
    if (!kind && HAS_EXPERTS.includes(arch)) return; // their experts are frozen
    const opened = openModel(dir, model(arch), kind && lora(arch));
    if (kind) shake(opened, 3);
    const { worst, at } = gradientError(opened, shape(over));
    expect([worst < 1e-3, at, worst]).toEqual([true, at, worst]);
    opened.close();
  });

  test("an adapter learns, and llama.cpp gives it the same scores", async () => {
    const opened = openModel(dir, model(arch), lora(arch));
    const { weights } = opened;
    shake(opened, 5);
    const of = shape();
    const graph = graphOf(opened, of);
    const batch = randomBatch(of, opened.architecture.vocab);
    const scored = batch.targets.filter((target) => target >= 0).length;
    const tokenWeights = Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : 1 / scored));
    const optimizer = openOptimizer(weights);
    const losses: number[] = [];
    const STEP = { learningRate: 1e-2, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxNorm: 1, divisor: 1 };
    for (let step = 0; step < 20; step++) {
      weights.clearGradients();
      losses.push(-graph.forward(batch).reduce((sum, logp) => sum + logp, 0) / scored);
      graph.backward(tokenWeights);
      optimizer.step(STEP);
    }
    expect(losses.at(-1)).toBeLessThan((losses[0] as number) * 0.9);
    const path = join(dir, `${arch}-adapter.gguf`);
    await writeAdapterGguf(path, adapterOf(weights, arch));
    expect(apart(opened, path).worst).toBeLessThan(5e-3);
    expect(apart(opened).worst).toBeGreaterThan(1e-2); // the adapter makes a difference
    optimizer.free();
    graph.free();
    opened.close();
  });
});
