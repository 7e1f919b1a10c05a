/**
 * A thread that scores batches, one at a time: the runtime blocks its caller, and the main thread must keep answering.
 */

import type { InferenceSession } from "onnxruntime-node";
import { errorText } from "../../lib/error_text.ts";
import { loadOnnx } from "../../native/onnx.ts";
import { AUDIO_MODELS } from "../protocol_detector.ts";
import { readClip } from "./audio/audio.ts";
import { isSpeech } from "./audio/speech.ts";
import { WINDOW } from "./audio/windows.ts";
import { joinOutputs, type Outputs } from "./batch.ts";
import { CROP } from "./image/views.ts";
import { WHOLE_SIDE } from "./image/whole.ts";
import {
  AT_ONCE,
  type FromLane,
  type Input,
  type LaneModel,
  type Network,
  type Results,
  type RunResult,
  type ToLane,
  WHOLE,
} from "./messages.ts";
import { Refusal } from "./refusal.ts";

declare const self: {
  onmessage: (event: { data: ToLane }) => void;
  postMessage: (message: FromLane, transfer?: ArrayBuffer[]) => void;
};

type Onnx = Awaited<ReturnType<typeof loadOnnx>>;
let onnx: Onnx;
/** `side`: of the pictures, in pixels. */
type OpenModel = { session: InferenceSession; features: string | undefined; side: number };
const sessions = new Map<Network, OpenModel>();

/**
 * One thread each: parallel batches use the cores better than one batch over all of them. `x64quantprecision`: without it,
 * processors that lack VNNI add products of bytes in 16 bits, where they do not fit, and scores would depend on the processor.
 */
const OPTIONS: InferenceSession.SessionOptions = {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: "sequential",
  graphOptimizationLevel: "all",
  logSeverityLevel: 3,
  extra: { session: { set_denormal_as_zero: "1", x64quantprecision: "1" } },
};

const isAudio = (name: Network) => (AUDIO_MODELS as readonly string[]).includes(name);
const reason = (error: unknown) => errorText(error).slice(0, 500);

self.onmessage = ({ data }) => {
  void (async () => {
    try {
      if (data.type === "open") await open(data);
      else if (data.type === "run") {
        const { input } = data;
        self.postMessage({ type: "ran", results: await run(data), input }, [input.buffer]);
      } else {
        const clip = await readClip(data.bytes);
        const heard = { ...clip, isSpeech: isSpeech(clip.windows, clip.count) };
        self.postMessage({ type: "heard", heard }, [heard.windows.buffer]);
      }
    } catch (error) {
      if (error instanceof Refusal) self.postMessage({ type: "refused", code: error.code, error: error.message });
      else self.postMessage({ type: data.type === "open" ? "unopened" : "failed", error: reason(error) });
    }
  })();
};

async function open({ dataDir, models }: Extract<ToLane, { type: "open" }>) {
  onnx = await loadOnnx(dataDir);
  const errors: Partial<Record<Network, string>> = {};
  for (const model of models) {
    try {
      sessions.set(model.name, await openModel(model));
    } catch (error) {
      errors[model.name] = reason(error);
    }
  }
  self.postMessage({ type: "opened", errors });
}

/** A model that loads but cannot run is unusable, so it is tried once. */
async function openModel({ name, weights, features }: LaneModel): Promise<OpenModel> {
  const session = await onnx.InferenceSession.create(weights, OPTIONS);
  const input = isAudio(name) ? "samples" : "pixels";
  if (!session.inputNames.includes(input)) throw new Error(`The model has no input "${input}"`);
  if (!session.outputNames.includes("logits")) throw new Error('The model has no output "logits"');
  const side = name === WHOLE ? WHOLE_SIDE : CROP;
  const blank = isAudio(name) ? new Float32Array(WINDOW) : new Uint8Array(side * side * 3);
  const model = { session, features, side };
  await outputsOf(model, blank, { count: 1, atOnce: 1 });
  return model;
}

async function run({ models, input, count }: Extract<ToLane, { type: "run" }>): Promise<Results> {
  const results: Results = {};
  for (const name of models) {
    const begun = performance.now();
    const ms = () => performance.now() - begun;
    const model = sessions.get(name);
    const result: RunResult = model
      ? await outputsOf(model, input, { count, atOnce: AT_ONCE[name] }).then(
          (outputs) => ({ ...outputs, ms: ms() }),
          (error) => ({ error: reason(error), ms: ms() }),
        )
      : { error: `${name} is not loaded`, ms: 0 };
    results[name] = result;
  }
  return results;
}

type Portions = { count: number; atOnce: number };

async function outputsOf(model: OpenModel, input: Input, { count, atOnce }: Portions): Promise<Outputs> {
  const parts: Outputs[] = [];
  const each = input.length / count;
  for (let from = 0; from < count; from += atOnce) {
    const to = Math.min(from + atOnce, count);
    parts.push(await runOnce(model, input.subarray(from * each, to * each), to - from));
  }
  return joinOutputs(parts);
}

async function runOnce({ session, features, side }: OpenModel, input: Input, count: number): Promise<Outputs> {
  const tensor =
    input instanceof Uint8Array
      ? new onnx.Tensor("uint8", input, [count, side, side, 3])
      : new onnx.Tensor("float32", input, [count, WINDOW]);
  const wanted = ["logits", ...(features === undefined ? [] : [features])];
  const output = await session.run({ [input instanceof Uint8Array ? "pixels" : "samples"]: tensor }, wanted);
  const logits = output["logits"]?.data;
  if (!(logits instanceof Float32Array) || logits.length !== count)
    throw new Error(`The model returned ${logits?.length ?? 0} logits for ${count} inputs`);
  const seen = features === undefined ? undefined : output[features]?.data;
  return seen instanceof Float32Array ? { logits, features: seen } : { logits };
}
