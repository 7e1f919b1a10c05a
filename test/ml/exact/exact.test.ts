// tier: all (trains models)
/** Samples of an exact sampler have the log-probabilities of the exact trainer, bit for bit. Both run in emulation. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { WeightPlaces } from "../../../src/native/llama/weights.ts";
import { openMerger } from "../../../src/workers/trainer/engine/fused/sampler/merge.ts";
import { buildGraph } from "../../../src/workers/trainer/engine/graph.ts";
import { frozenPlaces } from "../../../src/workers/trainer/engine/weights.ts";
import { openRoller } from "../../../src/workers/trainer/rollouts/roller.ts";
import { batchOf, cut, microBatches } from "../../../src/workers/trainer/trainee/batches.ts";
import { tempDir } from "../../harness.ts";
import { type ModelOptions, makeModel } from "../../models.ts";
import { canEmulate, openEmulation } from "../../native/emulation/device.ts";
import { openEmulatedKernels } from "../engine/emulated_kernels.ts";
import { fillAdapter, openFile } from "../engine/fused_kit.ts";
import { random, shape } from "../engine/kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };
const MODEL = {
  type: "BF16",
  layers: 2,
  width: 128,
  heads: 4,
  kvHeads: 2,
  ff: 192,
  context: 192,
  sharpness: 1,
} as const;
const request = (seed: number, length: number, samples: number) => ({
  prompt: Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17) % 50)),
  samples,
  seed,
});
/** Prompts shorter and longer than a tile of keys, answers that share one and one that is alone; answers cross a tile. */
const REQUESTS = [request(1, 9, 2), request(2, 75, 1)];

type Case = {
  model: Partial<ModelOptions> & Pick<ModelOptions, "arch">;
  temperature?: number;
  exact?: boolean;
  library?: boolean;
};

/** `library`: products in place of cublasLt. */
async function gap({ model, temperature = 1, exact = true, library = false }: Case) {
  const device = openEmulation({ isExact: library });
  const kernels = { ...openEmulatedKernels(), exact: () => device.exact()?.products ?? null };
  const path = makeModel(dir, { ...MODEL, ...model });
  const opened = openFile(dir, path, LORA, kernels);
  const { weights, backend, architecture } = opened;
  fillAdapter(opened, random(3));
  const merger = openMerger(architecture, weights);
  const size = { contextLength: 192, parallel: 5, threads: 1, gpus: [] };
  const roller = await openRoller({
    dataDir: dir,
    modelPath: path,
    ...size,
    device,
    frozen: frozenPlaces(weights),
    exact,
  });
  const held: { merged?: WeightPlaces } = {};
  await roller.merge((places) => {
    held.merged = places;
    return merger.merge(places, 1);
  });
  const sampling = { temperature, topP: 1, topK: 0, minP: 0, maxTokens: 70 };
  const rolled = await roller.roll(REQUESTS, sampling);
  const drawn = rolled.flatMap((group, g) =>
    group.map(({ tokens, logps }) => {
      const { prompt } = REQUESTS[g]!;
      return { piece: { tokens: Int32Array.from([...prompt, ...tokens]), from: prompt.length }, said: logps! };
    }),
  );
  const batches = microBatches(
    drawn.map(({ piece }) => [piece]),
    { tokens: 4096, steps: 4, shares: true, attention: "seen", align: exact ? 64 : 1 },
  );
  const differences: number[] = [];
  for (const micro of batches) {
    const { tokens, rows, scored } = micro;
    const sized = shape({ tokens, rows, scored, trains: false, checkpoints: false, headChunk: 96, temperature, exact });
    const graph = buildGraph({ ...opened, ...held, longest: 192 }, sized);
    const logps = graph.forward(batchOf(micro, null));
    graph.free();
    for (const piece of micro.pieces) {
      const { said } = drawn[piece.unit]!;
      differences.push(...cut(logps, piece).map((logp, t) => Math.abs(logp - said[t]!)));
    }
  }
  await roller.close();
  merger.free();
  weights.free();
  backend.close();
  const sum = differences.reduce((a, b) => a + b, 0);
  return { tokens: differences.length, mean: sum / differences.length, max: Math.max(...differences) };
}

describe.skipIf(!canEmulate)("sampler and trainer", () => {
  test.each<[string, Case]>([
    ["llama", { model: { arch: "llama", headLength: 64 } }],
    ["qwen2, with biases, at a temperature", { model: { arch: "qwen2", headLength: 64 }, temperature: 0.7 }],
    ["qwen2, products by the library", { model: { arch: "qwen2", headLength: 64 }, library: true }],
    ["qwen3, with norms of heads of 128", { model: { arch: "qwen3", headLength: 128 } }],
  ])(
    "have the same bits: %s",
    async (_name, of) => {
      const { tokens, ...found } = await gap(of);
      expect(tokens).toBeGreaterThan(100);
      expect(found).toEqual({ mean: 0, max: 0 });
    },
    240_000,
  );

  test("differ in their last bits otherwise", async () => {
    const { mean, max } = await gap({ model: { arch: "llama", headLength: 64 }, exact: false });
    expect([mean > 0, mean < 0.05, max < 1]).toEqual([true, true, true]);
  }, 240_000);
});
