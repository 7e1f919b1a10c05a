/** The vocabulary of a model that learns: sequences in, log-probabilities out, and what to open. */
import type { OptimizerName } from "../../../lib/training/fields.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import type { Divergence } from "../../../lib/training/loss/divergence.ts";
import type { Kernels } from "../../../native/cuda/kernels.ts";
import type { Device } from "../../../native/ggml/ggml.ts";
import type { Ranks } from "../ranks/types.ts";

/** One sequence. The scored tokens are tokens[from], tokens[from + 1] …, each given everything before it; from ≥ 1. */
export type Piece = { tokens: Int32Array; from: number };

/** A model on a device, and the passes over it. */
export type ModelOptions = {
  dataDir: string;
  modelPath: string;
  device: Device;
  /** Tokens of the longest piece. */
  maxLength: number;
  /** Logits are divided by it, in scores and in gradients. */
  temperature: number;
  /** Divides the planned tokens of a micro-batch. */
  microDivisor: number;
  /** Compute by ggml although our own kernels could. Default false. */
  usesTape?: boolean;
  /** The other processes that train this model. Absent or null: this process trains alone. */
  ranks?: Ranks | null;
  /** Default: those of the device. Tests give an emulation. */
  kernels?: Kernels;
  /** Called between micro-batches to show that the worker is alive. */
  onTurn?: () => void;
};

/** The part of a model that is trained. */
export type Training = {
  /** Null: every weight is trained. */
  lora: LoraSettings | null;
  /** Layers may be computed again in the backward pass, if keeping their results takes too much memory. */
  checkpointing: boolean;
  /** NEFTune: strength of the noise on the embeddings in `learn`; absent: none. */
  noiseAlpha?: number | null;
  /** The model learns from a teacher's vocabulary: see `Trainee.learnFrom`. Default null. */
  divergence?: Divergence | null;
  /** Matrices of layers become NF4 when they are loaded. Default false. */
  in4Bit?: boolean;
};

export type TraineeOptions = ModelOptions &
  Training & {
    seed: number;
    /** Default adamw_torch. */
    optim?: OptimizerName;
    /**
     * After `merge`, passes forward multiply by the sampler's weights as an exact sampler does: log-probabilities are then its own to
     * the last bit. Needs an adapter without dropout that can be merged. Default false.
     */
    exact?: boolean;
  };

/** `divergences`: from the teacher; absent without one. */
export type Scores = { logps: Float32Array; entropies: Float32Array | null; divergences?: Float32Array };
/** Scores that are computed beside the log-probabilities. */
export type Extras = { entropies: boolean; divergences: boolean };
