// tier: all (trains models)
/** Every family that the fused passes compute, with the CUDA kernels themselves: compiled for the processor. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { Family } from "../../../src/lib/gguf/architecture.ts";
import { canFuse } from "../../../src/workers/trainer/engine/fused/fused.ts";
import { unsupported } from "../../../src/workers/trainer/engine/fused/unsupported.ts";
import type { GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import { tempDir } from "../../harness.ts";
import { type ModelOptions, makeModel } from "../../models.ts";
import { canEmulate } from "../../native/emulation/device.ts";
import { sampleOf } from "../../sweep.ts";
import { openEmulatedKernels } from "./emulated_kernels.ts";
import { apart, openFile, passes } from "./fused_kit.ts";
import { branchingBatch, randomBatch, shape } from "./kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };
const MODEL = { type: "BF16", layers: 2, width: 64, heads: 2, kvHeads: 1, ff: 96, sharpness: 1 } as const;

type Case = [string, Partial<ModelOptions> & { arch: Family; headLength: number }, Partial<GraphShape>];
const CASES: Case[] = [
  ["llama", { arch: "llama", headLength: 64 }, {}],
  ["qwen2, layers computed again", { arch: "qwen2", headLength: 64 }, { checkpoints: true }],
  ["llama, heads of 128", { arch: "llama", headLength: 128 }, {}],
  ["llama, heads of 96", { arch: "llama", headLength: 96 }, {}],
  ["smollm3, with a layer that does not rotate", { arch: "smollm3", headLength: 64, layers: 4 }, {}],
  ["granite", { arch: "granite", headLength: 64 }, {}],
  ["granite, layers computed again", { arch: "granite", headLength: 128 }, { checkpoints: true, scored: 36 }],
  ["phi3, long factors", { arch: "phi3", headLength: 64 }, {}],
  ["phi3, heads of 96, short factors", { arch: "phi3", headLength: 96 }, { tokens: 15 }],
  ["gemma2", { arch: "gemma2", headLength: 128 }, {}],
  ["gemma2, heads of 256, at a temperature", { arch: "gemma2", headLength: 256 }, { temperature: 0.7, headChunk: 8 }],
  ["gemma3, layers computed again", { arch: "gemma3", headLength: 128 }, { checkpoints: true }],
  ["gemma3, heads of 256", { arch: "gemma3", headLength: 256 }, {}],
];

/** Multiprocessors: with many of them, each head has its own blocks. */
const BRANCHING: [string, number, Case[1], Partial<GraphShape>][] = [
  ["granite", 1, { arch: "granite", headLength: 64 }, { tokens: 90 }],
  ["llama, heads of 96, each by itself", 64, { arch: "llama", headLength: 96 }, {}],
  ["gemma2, heads of 256, each by itself", 64, { arch: "gemma2", headLength: 256 }, {}],
  ["gemma3, two tiles of keys", 1, { arch: "gemma3", headLength: 128 }, { tokens: 90 }],
  ["gemma3, heads of 256", 1, { arch: "gemma3", headLength: 256 }, { tokens: 70 }],
];

/** Distances of `apart` for a single tensor: BF16 between the products turns small gradients most. */
const [SCORES, GRADIENTS, ALL] = [1e-4, 4e-3, 1e-3];

function compare(model: Case[1], of: GraphShape, { multiprocessors = 1, draw = randomBatch } = {}) {
  const path = makeModel(dir, { ...MODEL, ...model });
  const kernels = { ...openEmulatedKernels(), multiprocessors };
  const fused = openFile(dir, path, LORA, kernels);
  expect([canFuse(fused, of.tokens), unsupported(fused.architecture, of.tokens)]).toEqual([true, []]);
  const expected = passes(openFile(dir, path, LORA, null), of, { draw });
  const found = passes(fused, of, { draw });
  expected.scores.forEach((values, i) => {
    expect(apart(values, found.scores[i] as Float32Array)).toBeLessThan(SCORES);
  });
  const far = expected.gradients.flatMap(([name, values], i) => {
    const distance = apart(values, (found.gradients[i] as (typeof found.gradients)[number])[1]);
    return distance < GRADIENTS ? [] : [[name, distance]];
  });
  expect(far).toEqual([]);
  const together = ({ gradients }: typeof found) => Float32Array.from(gradients.flatMap(([, values]) => [...values]));
  expect(apart(together(expected), together(found))).toBeLessThan(ALL);
}

describe.skipIf(!canEmulate)("the kernels compute the same as the tape", () => {
  test.each(sampleOf("fused families", CASES, 0.5))(
    "%s",
    (_name, model, graph) => {
      compare(model, { ...shape({ tokens: 19, entropies: true }), ...graph });
    },
    120_000,
  );

  test.each(sampleOf("branching families", BRANCHING, 0.4))(
    "sequences that branch: %s",
    (_name, multiprocessors, model, graph) => {
      compare(
        model,
        { ...shape({ tokens: 38, entropies: true }), ...graph },
        { multiprocessors, draw: branchingBatch },
      );
    },
    120_000,
  );
});
