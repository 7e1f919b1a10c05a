/** Chooses exact or usual passes for a job of GRPO or RLOO, the same on all ranks, and says which for the log. */
import { computeMajor } from "../../native/cuda/driver.ts";
import { WorkerError } from "../protocol.ts";
import type { RolledValues } from "./loop/types.ts";
import { readModelFile } from "./model_file.ts";
import type { Setting } from "./open.ts";
import type { Ranks } from "./ranks/types.ts";
import { reasonNotDrawn } from "./rollouts/drawn_families.ts";
import { reasonNotExact } from "./rollouts/exact.ts";
import type { Roller } from "./rollouts/types.ts";
import type { Trainee } from "./trainee/trainee.ts";

/** `reason`: why passes are the usual ones; null: they are exact. */
export type ExactChoice = { isDemanded: boolean; reason: string | null };

/** Throws if the job demands exact sampling and cannot have it. */
export async function chooseExact(
  { plan, machine, ranks, sampler, emulated }: Setting,
  { exact_sampling: wanted, load_in_4bit: in4Bit, max_completion_length: maxCompletionLength }: RolledValues,
): Promise<ExactChoice> {
  const [gpu] = machine.gpus;
  const major = emulated?.major ?? (gpu === undefined ? null : computeMajor(gpu));
  const { header } = await readModelFile(plan.model_path);
  const facts = {
    wanted,
    lora: plan.lora,
    in4Bit,
    maxCompletionLength,
    hasTurns: plan.environments !== undefined,
    notDrawn: sampler?.kernels === false ? "the library draws" : reasonNotDrawn(header),
    majors: ranks ? await gatherMajors(ranks, major) : [major],
  };
  return checked({ isDemanded: wanted === true, reason: reasonNotExact(facts) });
}

/** Ranks must choose alike: the layout of batches depends on it. */
async function gatherMajors(ranks: Ranks, major: number | null): Promise<(number | null)[]> {
  const all = await ranks.gather(Uint8Array.of(major ?? 0));
  return all.map(([major]) => major || null);
}

/** Adds what shows only when both models are open. Throws as `chooseExact` does. */
export function confirmExact(choice: ExactChoice, trainee: Trainee, roller: Roller): ExactChoice {
  if (choice.reason !== null) return choice;
  if (!trainee.isExact) return checked({ ...choice, reason: "our kernels cannot train this model here" });
  return checked({ ...choice, reason: roller.isExact ? null : "our kernels cannot draw from this model here" });
}

function checked(choice: ExactChoice): ExactChoice {
  const { isDemanded, reason } = choice;
  if (isDemanded && reason !== null)
    throw new WorkerError("config", `exact_sampling cannot be true: ${reason}. Leave it out for the usual sampling`);
  return choice;
}

export const exactLine = ({ reason }: ExactChoice): string =>
  reason === null
    ? "exact sampling: the sampler's log-probabilities equal the trainer's bit for bit"
    : `usual sampling, not exact: ${reason}`;
