import { GgufError } from "../../lib/gguf/parse.ts";
import { OutOfMemory } from "../../native/ggml/ggml.ts";
import { SafetensorsError } from "../checkpoints/safetensors.ts";
import { type ReportedFailure, WorkerError } from "../protocol.ts";
import type { TROUBLES, TrainSample } from "../protocol_trainer.ts";

export type TroubleKind = (typeof TROUBLES)[number];

/** A training failure that its owner can fix. */
export class Trouble extends Error {
  constructor(
    readonly kind: TroubleKind,
    message: string,
    readonly about: { param?: string; sample?: TrainSample } = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "Trouble";
  }
}

const KINDS: Record<TroubleKind, ReportedFailure> = {
  no_effect: "config",
  lacking_memory: "memory",
  bad_rows: "data",
  bad_reward: "reward",
};

/** The sampling engine reports a lack of memory only in its message. */
const LACKING = /no memory for|out of memory|failed to allocate|cudaMalloc/i;

/** Converts out-of-memory errors, wherever they were thrown. */
export function asTrouble(error: unknown): Trouble | null {
  if (error instanceof Trouble) return error;
  if (!(error instanceof Error)) return null;
  if (error instanceof OutOfMemory || LACKING.test(error.message))
    return new Trouble("lacking_memory", error.message, {}, { cause: error });
  return null;
}

export const asWorkerError = (trouble: Trouble) =>
  new WorkerError(KINDS[trouble.kind], trouble.message, { cause: trouble });

/** An unusable model or checkpoint is not worth a retry. */
export function withKind(error: unknown): unknown {
  if (error instanceof GgufError) return new WorkerError("config", error.message, { cause: error });
  if (error instanceof SafetensorsError) return new WorkerError("data", error.message, { cause: error });
  return error;
}
