/** A model that learns, as methods use it: sequences in, log-probabilities out, token weights back. */
import type { OptimizerName } from "../../../lib/training/fields.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import type { Kernels } from "../../../native/cuda/kernels.ts";
import type { Device } from "../../../native/ggml/ggml.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import type { Architecture } from "../engine/architecture.ts";
import type { Step } from "../engine/optimizer.ts";
import type { ModelFile } from "../engine/weights.ts";
import type { Ranks } from "../ranks/types.ts";
import type { Adapter, ReadRows } from "../results/adapter.ts";

/** One sequence. The scored tokens are tokens[from], tokens[from + 1] …, each given everything before it; from ≥ 1. */
export type Piece = { tokens: Int32Array; from: number };

export type TraineeOptions = {
  dataDir: string;
  modelPath: string;
  device: Device;
  /** Null: every weight is trained. */
  lora: LoraSettings | null;
  seed: number;
  /** Tokens of the longest piece. */
  maxLength: number;
  /** Layers may be computed again in the backward pass, if keeping their results takes too much memory. */
  checkpointing: boolean;
  /** NEFTune: strength of the noise on the embeddings in `learn`; absent: none. */
  noiseAlpha?: number | null;
  /** Logits are divided by it, in scores and in gradients. */
  temperature: number;
  /** Divides the planned tokens of a micro-batch. */
  microDivisor: number;
  /** The other processes that train this model. Absent or null: this process trains alone. */
  ranks?: Ranks | null;
  /** Matrices of layers become NF4 when they are loaded. Default false. */
  in4Bit?: boolean;
  /** Default adamw_torch. */
  optim?: OptimizerName;
  /**
   * After `merge`, passes forward multiply by the sampler's weights as an exact sampler does: log-probabilities are then its own to
   * the last bit. Needs an adapter without dropout that can be merged. Default false.
   */
  exact?: boolean;
  /** Default: those of the device. Tests give an emulation. */
  kernels?: Kernels;
  /** Called between micro-batches to show that the worker is alive. */
  onTurn?: () => void;
};

export type Scores = { logps: Float32Array; entropies: Float32Array | null };

export type Trainee = {
  readonly file: ModelFile;
  readonly architecture: Architecture;
  /** Why a run on a GPU does not use our own kernels. Null if it uses them, or has no GPU. */
  readonly tapeReason: string | null;
  /** Memory of this process on its device: weights, gradients, moments, the largest graph. */
  readonly memoryBytes: number;
  readonly trainableParameters: number;
  /**
   * Scores under the current model. `reference`, which needs `lora`: under the start adapter, or with the adapter off if
   * the training began without one.
   */
  score: (pieces: readonly Piece[], how?: { reference?: boolean; entropies?: boolean }) => Promise<Scores[]>;
  /**
   * Runs forward, `weigh`, then backward, in micro-batches that fit the memory, and sums the gradients of Σ w · -log p.
   * The pieces of one unit are weighed together and stay in one micro-batch (a pair of DPO). Units are independent.
   * Dropout depends only on `dropoutSeed` and the unit.
   */
  learn: (
    units: readonly (readonly Piece[])[],
    weigh: (unit: number, scores: readonly Scores[]) => readonly Float32Array[],
    how: { dropoutSeed: number; entropies?: boolean },
  ) => Promise<void>;
  /**
   * One AdamW step over the gradients so far, which are cleared. Returns their norm. If it is not finite, nothing was
   * changed.
   */
  step: (options: Step) => number;
  readonly steps: number;
  /** True if the adapter can be merged into weights of half precision on the same device. */
  readonly canMerge: boolean;
  /** True if passes forward are exact after `merge`. */
  readonly isExact: boolean;
  /** Matrices that training does not change: they have no adapter. */
  readonly frozen: WeightPlaces;
  /**
   * Merges the adapter into the weights of a sampler on the same device. Returns false if that is impossible. An exact
   * trainee computes with these weights from here on, and merges again after each step, unless `exact` is false: the
   * sampler is not exact then. Default true.
   */
  merge: (locations: WeightPlaces, exact?: boolean) => boolean;
  /** Starts from the weights of an adapter with the same rank and targets. It is also the reference from here on. */
  startFrom: (adapter: Adapter) => void;
  /** Returns the current adapter. Throws for a full training. */
  adapter: () => Adapter;
  /** Returns the current weights. Throws for an adapter. */
  rows: () => ReadRows;
  /** Writes weights.safetensors and moments.safetensors into an existing directory. */
  save: (dir: string) => Promise<void>;
  load: (dir: string, what: { moments: boolean }) => Promise<void>;
  close: () => void;
};
