/** A model that learns, as the methods see it: sequences in, log-probabilities out, weights of tokens back. */
import type { LoraSettings } from "../../../lib/training/lora.ts";
import type { Device } from "../../../native/ggml/ggml.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import type { Architecture } from "../engine/architecture.ts";
import type { Step } from "../engine/optimizer.ts";
import type { ModelFile } from "../engine/weights.ts";
import type { Adapter, ReadRows } from "../results/adapter.ts";

/** One sequence. What is scored is tokens[from], tokens[from + 1] …, each given everything before it; from ≥ 1. */
export type Piece = { tokens: Int32Array; from: number };

export type TraineeOptions = {
  dataDir: string;
  modelPath: string;
  device: Device;
  /** Null: every weight is trained. */
  lora: LoraSettings | null;
  seed: number;
  /** Tokens of the longest piece that will come. */
  maxLength: number;
  /** Layers may be computed again on the way back: they are, where keeping what they made takes much memory. */
  checkpointing: boolean;
  /** Logits are divided by it, in scores and in gradients. */
  temperature: number;
  /** Tokens of a micro-batch are this many times fewer than planned. */
  microDivisor: number;
  /** Called between micro-batches: the worker is alive. */
  onTurn?: () => void;
};

export type Scores = { logps: Float32Array; entropies: Float32Array | null };

export type Trainee = {
  readonly file: ModelFile;
  readonly architecture: Architecture;
  /** Of this process on its device: weights, gradients, moments, the largest graph. */
  readonly memoryBytes: number;
  readonly trainableParameters: number;
  /** Of the model as it is now, or as it was before the training (`reference`: the adapter is off; needs `lora`). */
  score: (pieces: readonly Piece[], how?: { reference?: boolean; entropies?: boolean }) => Promise<Scores[]>;
  /**
   * Forward, then `weigh`, then backward, in micro-batches as memory allows: gradients of Σ w · -log p are added up.
   * The pieces of one unit are weighed together and stay in one micro-batch (a pair of DPO); units are independent.
   * `dropoutSeed`: which activations of the adapters are dropped is a function of it and the unit alone.
   */
  learn: (
    units: readonly (readonly Piece[])[],
    weigh: (unit: number, scores: readonly Scores[]) => readonly Float32Array[],
    how: { dropoutSeed: number; entropies?: boolean },
  ) => Promise<void>;
  /** One step of AdamW over the gradients so far, which are cleared. Returns their norm; not finite: nothing was changed. */
  step: (options: Step) => number;
  readonly steps: number;
  /** The adapter with its weights, into those of a sampler on the same device. False where that cannot be. */
  merge: (places: WeightPlaces) => boolean;
  /** What the adapter is now. Throws for a training of all weights. */
  adapter: () => Adapter;
  /** What all weights are now. Throws for an adapter. */
  rows: () => ReadRows;
  /** weights.safetensors and moments.safetensors into a directory that exists. */
  save: (dir: string) => Promise<void>;
  load: (dir: string, what: { moments: boolean }) => Promise<void>;
  close: () => void;
};
