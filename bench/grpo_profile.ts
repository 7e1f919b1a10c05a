/**
 * Takes the time of a GRPO step of 256 samples of 128 tokens apart on a GPU, for the shape of bench/grpo_step.ts: learning
 * by phases and by kernels, and one step of the sampler's decoding by kernels. It has no aims: it explains those of grpo_step.
 */
import { join } from "node:path";
import { PAGE } from "../src/native/cuda/decode/kernels.ts";
import { openDecodeDevice } from "../src/native/cuda/decode/open.ts";
import { openDecoder } from "../src/workers/decoder/decoder.ts";
import { PLAIN } from "../src/workers/decoder/drawing.ts";
import { headerOf } from "../src/workers/decoder/header.ts";
import { loadModel } from "../src/workers/decoder/model.ts";
import { timingDevice } from "./decode/kernel_times.ts";
import { HALF_BILLION, writeRolloutModel } from "./peers/rollout_model.ts";
import { type Row, remove, tempDir } from "./tools.ts";
import { learnProfile } from "./training/kernel_profile.ts";

const SIZE = { prompts: 32, group: 8, tokens: 128, vocab: HALF_BILLION.vocab };

export async function run(_: { quick: boolean }): Promise<Row[]> {
  if (Bun.which("nvidia-smi") === null) return [];
  const dir = tempDir();
  const model = join(dir, "model.gguf");
  await writeRolloutModel(model, HALF_BILLION, "BF16");
  const rows: Row[] = [];
  const add = (what: string, value: string) =>
    void rows.push({ bench: "grpo_profile", what, value, target: "", ok: null });
  const found = await learnProfile(dir, model, { kind: "cuda", index: 0 }, SIZE);
  for (const [of, parts] of [["learning", found?.phases ?? []] as const, ["learning", found?.kernels ?? []] as const])
    for (const { what, launches, ms } of parts) add(`${of}: ${what}`, `${ms.toFixed(2)} ms, ${launches} times`);
  decodeKernels(dir, model, (line) => add("a step of decoding", line));
  remove(dir);
  return rows;
}

/** A step of 256 rows with contexts of 192 tokens. */
function decodeKernels(dir: string, path: string, tell: (line: string) => void) {
  const device = openDecodeDevice(dir, [0]);
  if (typeof device === "string") return tell(device);
  const [slots, contextLength] = [SIZE.prompts * SIZE.group, 512];
  const model = loadModel(device, { path, header: headerOf(path) }, contextLength);
  const decoder = openDecoder(timingDevice(device, tell), model, {
    slots,
    contextLength,
    pages: slots * Math.ceil(contextLength / PAGE),
    promptTokens: 8192,
    ahead: true,
  });
  for (let slot = 0; slot < slots; slot++) {
    const prompt = Int32Array.from(
      { length: 192 },
      (_, i) => 300 + ((Math.floor(slot / SIZE.group) * 613 + i * 31) % 1700),
    );
    decoder.admit({ prompt, maxTokens: 64, drawing: { ...PLAIN, seed: slot, topLogprobs: 0 } });
  }
  while (decoder.stats().reading > 0 || decoder.stats().steps < 2) decoder.step();
  decoder.close();
  model.free();
  device.close();
}

if (import.meta.main) for (const { what, value } of await run({ quick: false })) console.log(`${value}\t${what}`);
