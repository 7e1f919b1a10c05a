/**
 * A thread that scores batches, one at a time: the runtime blocks its caller, and the main thread must keep answering.
 */
import type { InferenceSession } from "onnxruntime-node";
import { loadOnnx } from "../../native/onnx.ts";
import { AUDIO_MODELS, type ModelName } from "../protocol_detector.ts";
import { readClip } from "./audio/audio.ts";
import { WINDOW } from "./audio/windows.ts";
import { CROP } from "./image/views.ts";
import type { FromLane, Input, Results, RunResult, ToLane } from "./messages.ts";
import { Refusal } from "./refusal.ts";

declare const self: {
  onmessage: (event: { data: ToLane }) => void;
  postMessage: (message: FromLane, transfer?: ArrayBuffer[]) => void;
};

type Onnx = Awaited<ReturnType<typeof loadOnnx>>;
let onnx: Onnx;
const sessions = new Map<ModelName, InferenceSession>();

/** One thread each: parallel batches use the cores better than one batch over all of them. */
const OPTIONS: InferenceSession.SessionOptions = {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: "sequential",
  graphOptimizationLevel: "all",
  logSeverityLevel: 3,
  extra: { session: { set_denormal_as_zero: "1" } },
};

/** Crops or windows per network run: small enough that activations stay in the core's cache. */
const AT_ONCE: Record<ModelName, number> = { detector_v0: 6, detector_v1: 3, detector_audio_v0: 2 };

const isAudio = (name: ModelName) => (AUDIO_MODELS as readonly string[]).includes(name);
const reason = (error: unknown) => (error instanceof Error ? error.message : String(error)).slice(0, 500);

self.onmessage = ({ data }) => {
  void (async () => {
    try {
      if (data.type === "open") await open(data);
      else if (data.type === "run") {
        const { input } = data;
        self.postMessage({ type: "ran", results: await run(data), input }, [input.buffer]);
      } else {
        const heard = await readClip(data.bytes);
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
  const errors: Partial<Record<ModelName, string>> = {};
  for (const { name, weights } of models) {
    try {
      sessions.set(name, await openModel(name, weights));
    } catch (error) {
      errors[name] = reason(error);
    }
  }
  self.postMessage({ type: "opened", errors });
}

/** A model that loads but cannot run is unusable, so it is tried once. */
async function openModel(name: ModelName, weights: Uint8Array): Promise<InferenceSession> {
  const session = await onnx.InferenceSession.create(weights, OPTIONS);
  const input = isAudio(name) ? "samples" : "pixels";
  if (!session.inputNames.includes(input)) throw new Error(`The model has no input "${input}"`);
  if (!session.outputNames.includes("logits")) throw new Error('The model has no output "logits"');
  const blank = isAudio(name) ? new Float32Array(WINDOW) : new Uint8Array(CROP * CROP * 3);
  await logitsOf(session, blank, { count: 1, atOnce: 1 });
  return session;
}

async function run({ models, input, count }: Extract<ToLane, { type: "run" }>): Promise<Results> {
  const results: Results = {};
  for (const name of models) {
    const begun = performance.now();
    const ms = () => performance.now() - begun;
    const session = sessions.get(name);
    const result: RunResult = session
      ? await logitsOf(session, input, { count, atOnce: AT_ONCE[name] }).then(
          (logits) => ({ logits, ms: ms() }),
          (error) => ({ error: reason(error), ms: ms() }),
        )
      : { error: `${name} is not loaded`, ms: 0 };
    results[name] = result;
  }
  return results;
}

type Portions = { count: number; atOnce: number };

async function logitsOf(session: InferenceSession, input: Input, { count, atOnce }: Portions): Promise<Float32Array> {
  const logits = new Float32Array(count);
  const each = input.length / count;
  for (let from = 0; from < count; from += atOnce) {
    const to = Math.min(from + atOnce, count);
    logits.set(await runOnce(session, input.subarray(from * each, to * each), to - from), from);
  }
  return logits;
}

async function runOnce(session: InferenceSession, input: Input, count: number): Promise<Float32Array> {
  const tensor =
    input instanceof Uint8Array
      ? new onnx.Tensor("uint8", input, [count, CROP, CROP, 3])
      : new onnx.Tensor("float32", input, [count, WINDOW]);
  const output = await session.run({ [input instanceof Uint8Array ? "pixels" : "samples"]: tensor }, ["logits"]);
  const logits = output["logits"]?.data;
  if (!(logits instanceof Float32Array) || logits.length !== count)
    throw new Error(`The model returned ${logits?.length ?? 0} logits for ${count} inputs`);
  return logits;
}
