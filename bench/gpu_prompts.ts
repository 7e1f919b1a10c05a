/**
 * Milliseconds in which our kernels read a long prompt, beside the library in the same run.
 * `bun bench/gpu_prompts.ts [--shape 0.5B] [--type BF16] [--tokens 2000,32000] [--pass 512] [--late 2048] [--no-library]`
 * `--pass`: tokens of one pass. `--late`: the position from which on cublasLt multiplies.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Device, PAGE } from "../src/native/cuda/decode/kernels.ts";
import { openDecoder } from "../src/workers/decoder/decoder.ts";
import { PLAIN } from "../src/workers/decoder/drawing.ts";
import { headerOf } from "../src/workers/decoder/header.ts";
import { type DecoderModel, loadModel } from "../src/workers/decoder/model.ts";
import { openBenchDevice } from "./decode/device.ts";
import { libraryPromptMs } from "./decode/library.ts";
import { SHAPES, type WEIGHT_BYTES } from "./decode/shapes.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import { remove, tempDir } from "./tools.ts";

/** The best of three. */
function ownMs(device: Device, model: DecoderModel, prompt: number, pass: number, late: number): number {
  const contextLength = prompt + 1;
  const pages = Math.ceil(contextLength / PAGE);
  const decoder = openDecoder(device, model, { slots: 1, contextLength, pages, promptTokens: pass, lateFrom: late });
  const round = () => {
    const tokens = Int32Array.from({ length: prompt }, (_, i) => 300 + ((i * 31) % 1700));
    const before = performance.now();
    const sequence = decoder.admit({
      prompt: tokens,
      maxTokens: 1,
      drawing: { ...PLAIN, temperature: 0 },
      fresh: true,
    });
    if (sequence === null) throw new Error("no room");
    while (decoder.step().length === 0);
    const ms = performance.now() - before;
    decoder.release(sequence);
    return ms;
  };
  const best = Math.min(round(), round(), round());
  decoder.close();
  return best;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      shape: { type: "string", default: "0.5B" },
      type: { type: "string", default: "BF16" },
      tokens: { type: "string", default: "2000,32000" },
      pass: { type: "string", default: "512" },
      late: { type: "string", default: "2048" },
      "no-library": { type: "boolean", default: false },
    },
  });
  const shape = SHAPES[values.shape];
  if (!shape) throw new Error(`There is no shape ${values.shape}`);
  const dataDir = tempDir();
  const modelPath = join(dataDir, "model.gguf");
  await writeRolloutModel(modelPath, shape, values.type as keyof typeof WEIGHT_BYTES);
  const device = openBenchDevice();
  const lengths = values.tokens.split(",").map(Number);
  const model = loadModel(device, { path: modelPath, header: headerOf(modelPath) }, Math.max(...lengths) + 2);
  for (const prompt of lengths) {
    const own = ownMs(device, model, prompt, Number(values.pass), Number(values.late));
    const peer = values["no-library"] ? Number.NaN : libraryPromptMs({ dataDir, modelPath, prompt });
    console.log(
      `${values.shape} ${values.type}, a prompt of ${prompt}: ${own.toFixed(0)} ms, the library ${peer.toFixed(0)} ms`,
    );
  }
  model.free();
  device.close();
  remove(dataDir);
}
