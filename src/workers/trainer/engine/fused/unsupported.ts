import { attentionKind } from "../../../../native/cuda/kernels.ts";
import type { Architecture } from "../architecture.ts";

const MOST_WIDTH = 12_288; // limit of a row in shared memory

/** True if the kernels can compute models of this shape, for positions below `longest`. */
export function fitsKernels(of: Architecture, longest: number): boolean {
  const { width, forward } = of;
  if (width % 8 !== 0 || forward % 8 !== 0 || width > MOST_WIDTH) return false;
  return unsupported(of, longest).length === 0;
}

/** Features of a model that the kernels do not compute. Such a model uses the tape on the GPU. */
export function unsupported(of: Architecture, longest: number): string[] {
  const limits = of.window !== null || of.caps.scores !== 0;
  const features: Record<string, boolean> = {
    [`heads of ${of.headLength}${limits ? " with a window or limited scores" : ""}`]:
      attentionKind(of.headLength, limits) === null,
    "a mixture of experts": of.experts !== null,
    "queries that grow with the position": of.temperature !== null && longest > of.temperature.length,
  };
  return Object.keys(features).filter((feature) => features[feature]);
}

type Run = { trainsAll: boolean; hasNoise: boolean; usesTape?: boolean; hasKernels: boolean; longest: number };

/** Why a run on a GPU uses ggml instead of our own kernels, as one line of the log. */
export function tapeReason(of: Architecture, { trainsAll, hasNoise, usesTape, hasKernels, longest }: Run): string {
  const line = (why: string) => `this run uses ggml on the GPU, which is slower than Verk's own kernels: ${why}`;
  if (!hasKernels) return line("this build or this card has no such kernels");
  if (trainsAll) return line("they train adapters, not all weights");
  if (hasNoise) return line("they do not add the noise of neftune_noise_alpha");
  if (usesTape) return line("they do not compare whole vocabularies with a teacher");
  const missing = unsupported(of, longest);
  return line(
    missing.length > 0 ? `they do not compute ${missing.join(", ")}` : "they need weights in another type than F32",
  );
}
