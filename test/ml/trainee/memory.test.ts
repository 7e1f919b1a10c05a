// tier: all (trains models)
/** Compares the memory estimate with real graphs and real trainings. */
import { afterAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { describe as describeModel } from "../../../src/lib/gguf/describe.ts";
import { parseGguf } from "../../../src/lib/gguf/parse.ts";
import { dimensionsOf, estimateMemory } from "../../../src/lib/training/memory.ts";
import { activationBytes, type Micro } from "../../../src/lib/training/memory_graph.ts";
import { buildGraph } from "../../../src/workers/trainer/engine/graph.ts";
import { tempDir } from "../../harness.ts";
import type { ModelOptions } from "../../models.ts";
import { openModel } from "../engine/kit.ts";
import { alone, LORA, opened } from "./kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const ADAPTERS = {
  rank: 8,
  alpha: 16,
  rslora: false,
  targets: ["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down"],
};
const NARROW = { layers: 4, width: 128, heads: 4, kvHeads: 2, ff: 384, context: 1024 };
const WIDE = { layers: 8, width: 256, heads: 8, kvHeads: 2, ff: 1024, context: 1024 };
const WORDY = { layers: 2, width: 64, heads: 2, kvHeads: 1, ff: 192, context: 1024, vocabSize: 16_000 };

const shapeOf = (path: string) => {
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  return describeModel(header);
};

type Sizes = { tokens: number; rows: number; lora?: false; parts?: number };
const CASES: [string, Partial<ModelOptions>, Sizes][] = [
  ["long rows", NARROW, { tokens: 512, rows: 4 }],
  ["long rows in blocks", NARROW, { tokens: 512, rows: 4, parts: 4 }],
  ["short rows", NARROW, { tokens: 128, rows: 16 }],
  ["a wider model", WIDE, { tokens: 256, rows: 4 }],
  ["a wider model in blocks", WIDE, { tokens: 256, rows: 4, parts: 4 }],
  ["a wider model in F16", { ...WIDE, type: "F16" }, { tokens: 128, rows: 8 }],
  ["a wider model in Q8_0", { ...WIDE, type: "Q8_0" }, { tokens: 128, rows: 8 }],
  ["norms of heads", { ...NARROW, arch: "qwen3" }, { tokens: 256, rows: 4 }],
  ["biases", { ...NARROW, arch: "qwen2" }, { tokens: 256, rows: 4 }],
  ["yarn", { ...NARROW, arch: "mistral3" }, { tokens: 256, rows: 4 }],
  ["scales", { ...NARROW, arch: "granite" }, { tokens: 256, rows: 4 }],
  ["joined matrices", { ...NARROW, arch: "phi3" }, { tokens: 256, rows: 4 }],
  ["limits and two masks", { ...NARROW, arch: "gemma2" }, { tokens: 256, rows: 4 }],
  ["limits of a wider model in blocks", { ...WIDE, arch: "gemma2" }, { tokens: 256, rows: 4, parts: 4 }],
  ["norms of results", { ...WIDE, arch: "gemma3" }, { tokens: 256, rows: 4 }],
  ["norms of results, all weights", { ...NARROW, arch: "gemma3" }, { tokens: 256, rows: 4, lora: false }],
  ["many words", WORDY, { tokens: 128, rows: 4 }],
  ["limits of many words", { ...WORDY, arch: "gemma2" }, { tokens: 128, rows: 4 }],
  ["limits of many words, all weights", { ...WORDY, arch: "gemma2" }, { tokens: 128, rows: 4, lora: false }],
  ["many words in chunks", WORDY, { tokens: 256, rows: 4, parts: 2 }],
  ["all weights", NARROW, { tokens: 256, rows: 4, lora: false }],
  ["all weights of a wider model", WIDE, { tokens: 64, rows: 16, lora: false }],
  ["all weights and many words", WORDY, { tokens: 128, rows: 4, lora: false }],
];

test.each(CASES)("a graph takes the estimated memory: %s", (_name, model, { tokens, rows, lora = true, parts = 1 }) => {
  const options: ModelOptions = { arch: "llama", type: "F32", ...model };
  const opened = openModel(dir, options, lora ? ADAPTERS : null);
  const shape = shapeOf(opened.path);
  const scored = tokens * rows;
  for (const recomputes of [false, true]) {
    const sized = { tokens, rows, scored, attentionBlock: tokens / parts, headChunk: scored / parts };
    const kind = { trainsAll: !lora, holdsTurned: true, isFused: false, recomputes };
    const micro: Micro = { ...sized, ...kind, weightBytes: shape.weight_bytes / shape.parameters };
    const graph = buildGraph(opened, { ...sized, trains: true, checkpoints: recomputes });
    const ratio = activationBytes(dimensionsOf(shape), micro) / graph.bytes;
    expect([recomputes, ratio > 0.85, ratio < 1.15, ratio]).toEqual([recomputes, true, true, ratio]);
    graph.free();
  }
  opened.close();
});

test.each(["qwen3moe", "gpt-oss"] as const)("the estimate of %s counts the experts of a token, not all", (arch) => {
  const opened = openModel(dir, { arch, type: "F32", ...NARROW }, ADAPTERS);
  const shape = shapeOf(opened.path);
  const sized = { tokens: 256, rows: 4, scored: 1024, attentionBlock: 256, headChunk: 1024 };
  for (const recomputes of [false, true]) {
    const kind = { trainsAll: false, holdsTurned: true, isFused: false, recomputes };
    const micro: Micro = { ...sized, ...kind, weightBytes: shape.weight_bytes / shape.parameters };
    const graph = buildGraph(opened, { ...sized, trains: true, checkpoints: recomputes });
    const ratio = activationBytes(dimensionsOf(shape), micro) / graph.bytes;
    expect([recomputes, ratio > 0.85, ratio < 1.15, ratio]).toEqual([recomputes, true, true, ratio]);
    graph.free();
  }
  opened.close();
});

test.each([
  ["an adapter", LORA],
  ["all weights", null],
])("%s: a whole training takes no more than the estimate, and at least a quarter of it", async (_name, lora) => {
  const trainee = await opened(dir, { lora, maxLength: 256, model: NARROW });
  const tokens = Int32Array.from({ length: 256 }, (_, i) => i % 200);
  const pieces = Array.from({ length: 8 }, () => ({ tokens, from: 1 }));
  await trainee.learn(alone(pieces), (_unit, scores) => scores.map(({ logps }) => logps.map(() => 1)), {
    dropoutSeed: 0,
  });
  const hyperparameters = { max_length: 256, per_device_train_batch_size: 8, gradient_checkpointing: false };
  const plan = { method: "sft", lora, hyperparameters, microDivisor: 1, device: "cpu" } as const;
  const { total } = estimateMemory(shapeOf(trainee.file.path), plan);
  expect(trainee.memoryBytes).toBeLessThan(total);
  expect(trainee.memoryBytes).toBeGreaterThan(total / 4);
  trainee.close();
});
