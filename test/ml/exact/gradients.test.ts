// tier: all (trains models)
/** Gradients of an exact pass have the direction and the length of a usual one's, on the same batch. Both are emulated. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { compare, sharedBatch } from "../../../bench/training/gradients.ts";
import { type ShapeOf, writeModel } from "../../../bench/training/model.ts";
import type { GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import type { Lora } from "../../../src/workers/trainer/engine/weights.ts";
import { tempDir } from "../../harness.ts";
import { canEmulate, openEmulation } from "../../native/emulation/device.ts";
import { openEmulatedKernels } from "../engine/emulated_kernels.ts";
import { openFile, passes } from "../engine/fused_kit.ts";
import { shape } from "../engine/kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };
const MODEL: ShapeOf = {
  arch: "llama",
  vocab: 100,
  width: 128,
  layers: 2,
  heads: 2,
  keyHeads: 1,
  head: 64,
  forward: 192,
  tied: true,
};
const COSINE = 0.999; // as in scripts/gpu/gradients.ts
const NEAR = 0.01; // relative, of norms and log-probabilities

type Case = { model?: Partial<ShapeOf>; lora?: Partial<Lora>; graph?: Partial<GraphShape>; library?: boolean };

/** `library`: products in place of cublasLt. */
function computed({ model, lora, graph, library = false }: Case, exact: boolean) {
  const path = join(dir, "model.gguf");
  writeModel(path, { ...MODEL, ...model });
  const device = openEmulation({ isExact: library });
  const kernels = { ...openEmulatedKernels(), exact: () => device.exact()?.products ?? null };
  const opened = openFile(dir, path, { ...LORA, ...lora }, kernels);
  const of = { ...shape({ tokens: 128, rows: 1, headChunk: 64, entropies: true, exact }), ...graph };
  return passes(opened, of, { draw: (each, vocab, seed = 1) => sharedBatch(each, vocab, 60 + seed) });
}

describe.skipIf(!canEmulate)("gradients of an exact pass", () => {
  test.each<[string, Case]>([
    ["llama", {}],
    ["llama, products by the library, at a temperature", { library: true, graph: { temperature: 0.7 } }],
    [
      "qwen2, two targets, layers computed again",
      { model: { arch: "qwen2" }, lora: { targets: ["attn_q", "ffn_down"] }, graph: { checkpoints: true } },
    ],
    ["qwen3, with norms of heads of 128", { model: { arch: "qwen3", head: 128 } }],
  ])(
    "are those of a usual pass: %s",
    (_, of) => {
      const [usual, exact] = [computed(of, false), computed(of, true)];
      usual.scores.forEach((values, i) => {
        expect(compare(values, exact.scores[i]!).relative).toBeLessThan(NEAR);
      });
      for (const part of [".lora_a", ".lora_b"]) {
        const all = ({ gradients }: typeof usual) =>
          Float32Array.from(gradients.flatMap(([name, values]) => (name.endsWith(part) ? [...values] : [])));
        const [expected, found] = [all(usual), all(exact)];
        const { cosine } = compare(expected, found);
        const longer = Math.hypot(...found) / Math.hypot(...expected);
        expect(cosine).toBeGreaterThanOrEqual(COSINE);
        expect(Math.abs(longer - 1)).toBeLessThan(NEAR);
      }
    },
    240_000,
  );
});
