/** Untrained detectors with the signatures of the real ones. Their scores can be computed by hand. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { WINDOW } from "../../src/workers/detector/audio/windows.ts";
import type { Calibration } from "../../src/workers/detector/calibration.ts";
import { CROP } from "../../src/workers/detector/image/views.ts";
import { WHOLE_SIDE } from "../../src/workers/detector/image/whole.ts";
import type { ModelName } from "../../src/workers/protocol_detector.ts";
import { floats, type Graph, TYPE, writeOnnx } from "../onnx_writer.ts";

const logits = { name: "logits", type: TYPE.float, dims: ["N"] };

/** logit = slope · mean of the pixels + bias. */
export const brightness = (slope: number, bias: number, input = "pixels"): Graph => ({
  nodes: [
    { op: "Cast", inputs: [input], output: "x", attributes: { to: TYPE.float } },
    { op: "ReduceMean", inputs: ["x"], output: "m", attributes: { axes: [1, 2, 3], keepdims: 0 } },
    { op: "Mul", inputs: ["m", "slope"], output: "s" },
    { op: "Add", inputs: ["s", "bias"], output: "logits" },
  ],
  tensors: [floats("slope", [1], [slope]), floats("bias", [1], [bias])],
  input: { name: input, type: TYPE.uint8, dims: ["N", CROP, CROP, 3] },
  output: logits,
});

/** The same for the small picture of the whole image. */
export const wholeBrightness = (slope: number, bias: number, input = "pixels"): Graph => ({
  ...brightness(slope, bias, input),
  input: { name: input, type: TYPE.uint8, dims: ["N", WHOLE_SIDE, WHOLE_SIDE, 3] },
});

/** logit = slope · mean of what is heard, without its sign, + bias. */
export const loudness = (slope: number, bias: number): Graph => ({
  nodes: [
    { op: "Abs", inputs: ["samples"], output: "x" },
    { op: "ReduceMean", inputs: ["x"], output: "m", attributes: { axes: [1], keepdims: 0 } },
    { op: "Mul", inputs: ["m", "slope"], output: "s" },
    { op: "Add", inputs: ["s", "bias"], output: "logits" },
  ],
  tensors: [floats("slope", [1], [slope]), floats("bias", [1], [bias])],
  input: { name: "samples", type: TYPE.float, dims: ["N", WINDOW] },
  output: logits,
});

/** logit = slope · mean of the green pixels + bias, by a last layer that reads the means of all three colours. */
export const green = (slope: number, bias: number): Graph => ({
  nodes: [
    { op: "Cast", inputs: ["pixels"], output: "x", attributes: { to: TYPE.float } },
    { op: "ReduceMean", inputs: ["x"], output: "means", attributes: { axes: [1, 2], keepdims: 0 } },
    { op: "Gemm", inputs: ["means", "weight", "bias"], output: "sum", attributes: { transB: 1 } },
    { op: "Gather", inputs: ["sum", "first"], output: "logits", attributes: { axis: 1 } },
  ],
  tensors: [
    floats("weight", [1, 3], [0, slope, 0]),
    floats("bias", [1], [bias]),
    { name: "first", dims: [], values: BigInt64Array.of(0n) },
  ],
  input: { name: "pixels", type: TYPE.uint8, dims: ["N", CROP, CROP, 3] },
  output: logits,
});

export const calibration: Calibration = {
  version: "fake-1",
  pooling: { kind: "mean" },
  temperature: 1,
  isotonic: [],
};

type ModelContent = { graph: Graph; calibration?: unknown } | { weights: Uint8Array; calibration?: unknown };

/** `whole`: the network for whole images. */
export function writeModels(dir: string, models: Partial<Record<ModelName, ModelContent>>, whole?: Graph): string {
  mkdirSync(dir, { recursive: true });
  if (whole) writeFileSync(join(dir, "detector_whole.onnx"), writeOnnx(whole));
  for (const [name, model] of Object.entries(models)) {
    writeFileSync(join(dir, `${name}.onnx`), "graph" in model ? writeOnnx(model.graph) : model.weights);
    writeFileSync(join(dir, `${name}.json`), JSON.stringify(model.calibration ?? calibration));
  }
  return dir;
}

/** White is generated and black is real to one; the other is less sure. */
export const FAKES = {
  detector_v0: { graph: brightness(1 / 32, -4) },
  detector_v1: { graph: brightness(1 / 64, -2) },
  detector_audio_v0: { graph: loudness(20, -4) },
} as const;
