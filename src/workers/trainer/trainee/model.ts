/** Loads a model onto a device, for passes by our own kernels if they can compute it. */
import { ggufTargets, type LoraSettings } from "../../../lib/training/lora.ts";
import { IN_4_BIT } from "../../../lib/training/memory.ts";
import { type Backend, openBackend } from "../../../native/ggml/ggml.ts";
import { WorkerError } from "../../protocol.ts";
import { type Architecture, architectureOf, targetsIn } from "../engine/architecture.ts";
import { canFuse } from "../engine/fused/fused.ts";
import { packingOf } from "../engine/fused/packed.ts";
import { tapeReason } from "../engine/fused/unsupported.ts";
import { keepOnlyFused } from "../engine/fused/weights.ts";
import type { Model } from "../engine/transformer.ts";
import { type Lora, loadWeights, type ModelFile } from "../engine/weights.ts";
import type { ModelOptions, Training } from "./types.ts";

export type LoadedModel = {
  readonly file: ModelFile;
  readonly model: Model;
  /** True if our own kernels compute the passes. */
  readonly isFused: boolean;
  /** Why a run on a GPU does not use our own kernels. Null if it uses them, or has no GPU. */
  readonly tapeReason: string | null;
  /** True if an adapter can be merged into weights of half precision on the same device. */
  readonly canMerge: boolean;
  readonly bytes: number;
  free: () => void;
};

/** A model that only scores: no matrix has an adapter, and no weight is trained. */
const FROZEN: Lora = { rank: 1, alpha: 1, rslora: false, targets: [] };

/** `training` null: the model only scores. */
export function loadModel(options: ModelOptions, file: ModelFile, training: Training | null): LoadedModel {
  const { maxLength } = options;
  const architecture = architectureOf(file.header);
  const lora = training ? training.lora && engineLora(training.lora, architecture) : FROZEN;
  if (architecture.experts && !lora)
    throw new Error(
      `The experts of ${architecture.name} models are frozen: set lora to train an adapter of the attention`,
    );
  const opened = openBackend(options.dataDir, options.device);
  const backend = options.kernels ? { ...opened, kernels: options.kernels } : opened;
  const hasNoise = !!training?.noiseAlpha;
  const usesTape = hasNoise || !!options.usesTape;
  const packing = packingFor(backend, { file, architecture, lora, maxLength, usesTape, in4Bit: !!training?.in4Bit });
  const weights = loadWeights(backend, file, lora, packing);
  const model: Model = { architecture, weights, longest: maxLength };
  const isFused = !usesTape && canFuse(model, maxLength);
  // A graph of another length may need the tape if queries grow with the position.
  const fused = isFused && architecture.temperature === null ? keepOnlyFused(architecture, weights) : null;
  const hasKernels = backend.kernels !== null;
  const run = { trainsAll: lora === null, hasNoise, usesTape, hasKernels, longest: maxLength };
  return {
    file,
    model,
    isFused,
    tapeReason: backend.kind === "cuda" && !isFused ? tapeReason(architecture, run) : null,
    canMerge: lora !== null && !weights.packed && canFuse(model, maxLength),
    get bytes() {
      return weights.bytes + (fused?.bytes ?? 0);
    },
    free() {
      fused?.free();
      weights.free();
      backend.close();
    },
  };
}

const engineLora = (settings: LoraSettings, architecture: Architecture): Lora => ({
  rank: settings.r,
  alpha: settings.alpha,
  rslora: settings.use_rslora,
  targets: targetsIn(architecture, ggufTargets(settings)),
});

type Packed = {
  file: ModelFile;
  architecture: Architecture;
  lora: Lora | null;
  maxLength: number;
  usesTape: boolean;
  in4Bit: boolean;
};

function packingFor(backend: Backend, { file, architecture, lora, maxLength, usesTape, in4Bit }: Packed) {
  const { header } = file;
  const packing = usesTape ? "no" : packingOf(backend, { architecture, header, lora, longest: maxLength, in4Bit });
  if (in4Bit && packing === "no") {
    backend.close();
    throw new WorkerError(
      "config",
      `load_in_4bit: the matrices of this ${architecture.name} model cannot be NF4 here. ${IN_4_BIT}`,
    );
  }
  return packing;
}
