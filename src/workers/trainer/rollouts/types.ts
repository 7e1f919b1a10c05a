/**
 * Samples for training, drawn by the serving engine or by our own kernels. The result of `roll` depends only on the weights, the adapter, the
 * requests and the sampling; on a GPU also on timing. A killed job that resumes on a CPU draws the same again.
 */
import type { Device } from "../../../native/cuda/decode/kernels.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import type { Wide } from "../../decoder/plan.ts";
import type { Engine, ModelFacts } from "../../serving/engine/types.ts";

/** One group: its samples share the prompt's keys and values. */
export type RolloutRequest = {
  prompt: Int32Array;
  samples: number;
  seed: number;
  /** Default: that of the sampling. */
  maxTokens?: number;
};

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
  /** Includes the end token if the model wrote one: it is trained on. */
  tokens: Int32Array;
  /** The sampler's log p at temperature-scaled logits, before any cut. Null if the engine drew greedily or with a cut on a GPU. */
  logps: Float32Array | null;
  /** Text without the end token. */
  text: string;
  /** True if it did not end by itself: the token limit or the context was reached. */
  truncated: boolean;
};

/** `continues`: prompts begin with the samples of the call before, whose keys and values are kept. */
export type RollOptions = { continues?: boolean };

export type Roller = {
  /** True if log-probabilities have the bits of the trainer's exact forward pass. */
  readonly isExact: boolean;
  readonly facts: Pick<ModelFacts, "contextLength" | "parallel" | "device" | "memoryBytes">;
  tokenize: Engine["tokenize"];
  detokenize: Engine["detokenize"];
  /** Rolls all groups together: slots are refilled as samples finish. The result is indexed [group][sample]. */
  roll: (
    requests: readonly RolloutRequest[],
    sampling: RolloutSampling,
    signal?: AbortSignal,
    options?: RollOptions,
  ) => Promise<Rollout[][]>;
  /** Sets the trainer's current adapter: the bytes of a GGUF, nothing on disk. null = none. */
  sync: (adapter: Uint8Array | null) => Promise<void>;
  /**
   * Merges the policy into the sampler's own weights while nothing runs. False: `write` could not; sync the adapter
   * instead.
   */
  merge: (write: (locations: WeightPlaces) => boolean) => Promise<boolean>;
  /** Replaces all weights (full training): `write` puts a GGUF at the path, which is in memory. */
  reload: (write: (path: string) => Promise<void> | void) => Promise<void>;
  close: () => Promise<void>;
};

export type RollerOptions = {
  /** The directory for extracted native libraries. */
  dataDir: string;
  modelPath: string;
  /** Context of one sample, its prompt included. */
  contextLength: number;
  /** Samples decoded at once; the others wait for a slot. */
  parallel: number;
  threads: number;
  /** Indices of the GPUs to use; empty = CPU. */
  gpus: readonly number[];
  /** Number of engines that share the weights and the samples. Default: one on a CPU, up to four on a GPU. */
  engines?: number;
  /** False: our own kernels must not draw, for example because the adapter cannot be merged. Default: true. */
  kernels?: boolean;
  /** The device of our own kernels. Default: the GPU. Tests give an emulation. */
  device?: Device;
  /** Our own kernels draw with the bits of the trainer's exact forward pass; see DecoderOptions. The library ignores it. */
  exact?: boolean;
  /** When cuBLAS multiplies for our own kernels; see DecoderOptions. */
  wide?: Wide | null;
  /** Weights that training does not change. Our own kernels use them in place. */
  frozen?: WeightPlaces;
  onProgress?: (fraction: number) => void;
};
