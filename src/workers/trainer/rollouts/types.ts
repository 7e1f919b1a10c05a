/**
 * Samples for training, drawn by the serving engine. What `roll` returns is a function of the weights, the adapter, the
 * requests and the sampling, and on a CPU of nothing else: a job that was killed and goes on draws the same again.
 */
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import type { Engine, ModelFacts } from "../../serving/engine/types.ts";

/** One group: its samples share the prompt's keys and values. */
export type RolloutRequest = { prompt: Int32Array; samples: number; seed: number };

export type RolloutSampling = {
  /** 0 = greedy. */
  temperature: number;
  topP: number;
  /** 0 = off. */
  topK: number;
  minP: number;
  maxTokens: number;
};

export type Rollout = {
  /** With the end token when the model wrote one: it is trained on. */
  tokens: Int32Array;
  /** By the sampler, log p at temperature-scaled logits, before any cut. Null where a GPU drew greedily or with a cut. */
  logps: Float32Array | null;
  /** Without the end token. */
  text: string;
  /** It did not end by itself: no tokens were left, or no context. */
  truncated: boolean;
};

export type Roller = {
  readonly facts: ModelFacts;
  tokenize: Engine["tokenize"];
  detokenize: Engine["detokenize"];
  /** All groups in one go: slots are refilled as samples finish. result[g][i] */
  roll: (requests: readonly RolloutRequest[], sampling: RolloutSampling, signal?: AbortSignal) => Promise<Rollout[][]>;
  /** The adapter of the trainer as it is now: the bytes of a GGUF, nothing on disk. null = none. */
  sync: (adapter: Uint8Array | null) => Promise<void>;
  /** The policy into the sampler's own weights, while nothing runs. False: `write` could not, sync the adapter instead. */
  merge: (write: (places: WeightPlaces) => boolean) => Promise<boolean>;
  /** All weights (full training): `write` puts a GGUF at the path, which is in memory. */
  reload: (write: (path: string) => Promise<void> | void) => Promise<void>;
  close: () => Promise<void>;
};

export type RollerOptions = {
  /** Where native libraries are extracted to. */
  dataDir: string;
  modelPath: string;
  /** Of one sample, its prompt included. */
  contextLength: number;
  /** Samples decoded at once; the rest wait for their slots. */
  parallel: number;
  threads: number;
  /** Indices of the GPUs to use; empty = CPU. */
  gpus: readonly number[];
  /** How many engines share the weights and the samples. Absent: one on a CPU, up to four on a GPU. */
  engines?: number;
  onProgress?: (fraction: number) => void;
};
