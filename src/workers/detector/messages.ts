/** Messages between the worker's main thread and its lanes. Buffers are transferred: the sender loses them. */
import type { ModelName, Refused } from "../protocol_detector.ts";

/** The network for whole images. It is no model of the interface: its answer is a part of the image models' answers. */
export const WHOLE = "detector_whole";
export type Network = ModelName | typeof WHOLE;

/**
 * Crops, windows or pictures per network run. They are few, so that activations stay in the core's cache and that the
 * runs of one file can be spread over lanes. The network with the longest run comes first: lanes take runs in this order.
 */
export const AT_ONCE: Record<Network, number> = {
  detector_v1: 3,
  [WHOLE]: 1,
  detector_v0: 6,
  detector_audio_v0: 2,
};

/**
 * `ms`: the times of all runs of the network, added up, also if they ran side by side. `features`: (count, width), of
 * models that were opened with `features`.
 */
export type RunResult = { logits: Float32Array; features?: Float32Array; ms: number } | { error: string; ms: number };
export type Results = Partial<Record<Network, RunResult>>;
/** Uint8Array: pixels (N, 256, 256, 3), or (N, 128, 128, 3) of whole images; Float32Array: samples (N, 48000). */
export type Input = Uint8Array<ArrayBuffer> | Float32Array<ArrayBuffer>;
export type Heard = {
  windows: Float32Array<ArrayBuffer>; // (count, 48000)
  count: number;
  format: "wav" | "flac" | "mp3";
  seconds: number;
  sampleRate: number;
  channels: number;
  /** False: music, noise or silence. */
  isSpeech: boolean;
};

/** `features`: the output with the features, if they are wanted. */
export type LaneModel = { name: Network; weights: Uint8Array; features?: string };

export type ToLane =
  | { type: "open"; dataDir: string; models: LaneModel[] }
  | { type: "run"; models: readonly Network[]; input: Input; count: number }
  | { type: "read_audio"; bytes: Uint8Array<ArrayBuffer> };

export type FromLane =
  | { type: "opened"; errors: Partial<Record<Network, string>> }
  | { type: "unopened"; error: string }
  /** The input buffer returns, to be reused. */
  | { type: "ran"; results: Results; input: Input }
  | { type: "heard"; heard: Heard }
  | { type: "refused"; code: Refused["code"]; error: string }
  | { type: "failed"; error: string };
