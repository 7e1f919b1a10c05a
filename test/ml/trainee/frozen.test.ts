// tier: all (trains models)
/** A frozen model scores as a trainee whose adapter is switched off. */
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { openFrozen } from "../../../src/workers/trainer/trainee/frozen.ts";
import { openTrainee } from "../../../src/workers/trainer/trainee/trainee.ts";
import { tempDir } from "../../harness.ts";
import { makeModel } from "../../models.ts";
import { canEmulate } from "../../native/emulation/device.ts";
import { openEmulatedKernels } from "../engine/emulated_kernels.ts";
import { LORA } from "./kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const MODEL = { type: "BF16", layers: 1, width: 64, heads: 1, kvHeads: 1, headLength: 64, ff: 64 } as const;
const LENGTH = 128;
const pieces = [1, 5, 66].map((from) => ({
  tokens: Int32Array.from({ length: from + 8 }, (_, i) => 40 + ((i * 17) % 50)),
  from,
}));

test.each(canEmulate ? ["ggml", "our kernels"] : ["ggml"])("by %s", async (by) => {
  const options = {
    dataDir: dir,
    modelPath: makeModel(dir, { arch: "qwen2", context: LENGTH, ...MODEL }),
    device: { kind: "cpu", threads: 1 } as const,
    maxLength: LENGTH,
    temperature: 1,
    microDivisor: 1,
    ...(by === "ggml" ? {} : { kernels: openEmulatedKernels() }),
  };
  const frozen = await openFrozen(options);
  const trainee = await openTrainee({ ...options, lora: LORA, seed: 1, checkpointing: true });
  expect(await frozen.score(pieces)).toEqual(await trainee.score(pieces, { reference: true }));
  frozen.close();
  trainee.close();
});
