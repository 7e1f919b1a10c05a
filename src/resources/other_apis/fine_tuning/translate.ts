/** A request for a fine-tuning job as a request for a training job, and errors back. Pure. */
import { AppError } from "../../../lib/errors.ts";
import { LEARNING_RATES } from "../../../lib/training/defaults.ts";
import type { CreateTrainingJob } from "../../training/training_jobs/admission/create_schema.ts";
import { rewardSource } from "./graders.ts";
import type { CreateFineTuningJob, FineTuningJob, Method } from "./schema.ts";

export const METHODS = { supervised: "sft", dpo: "dpo", reinforcement: "grpo" } as const;

type Hyperparameters = { n_epochs?: Auto; batch_size?: Auto; learning_rate_multiplier?: Auto; beta?: Auto };
type Auto = "auto" | number | undefined;

export function methodOf({ method, hyperparameters }: CreateFineTuningJob): Method {
  if (method) return method;
  return { type: "supervised", supervised: hyperparameters ? { hyperparameters } : {} };
}

function givenOf(method: Method): Hyperparameters {
  if (method.type === "supervised") return method.supervised?.hyperparameters ?? {};
  if (method.type === "dpo") return method.dpo?.hyperparameters ?? {};
  return method.reinforcement.hyperparameters ?? {};
}

/** The answer shows "auto" for a value that is not given. */
export function shownHyperparameters(method: Method): FineTuningJob["hyperparameters"] {
  const { n_epochs = "auto", batch_size = "auto", learning_rate_multiplier = "auto" } = givenOf(method);
  return { n_epochs, batch_size, learning_rate_multiplier };
}

/** The multiplier scales the default learning rate of the method, with LoRA. */
export function hyperparametersOf(method: Method): Record<string, number> {
  const { n_epochs, batch_size, learning_rate_multiplier: multiplier, beta } = givenOf(method);
  const rate = LEARNING_RATES[METHODS[method.type]].lora;
  const named = {
    num_train_epochs: n_epochs,
    per_device_train_batch_size: batch_size,
    learning_rate: typeof multiplier === "number" ? rate * multiplier : undefined,
    beta,
  };
  return Object.fromEntries(
    Object.entries(named).filter((each): each is [string, number] => typeof each[1] === "number"),
  );
}

type Datasets = { dataset: string; eval_dataset: string | null };

export function trainingRequest(body: CreateFineTuningJob, datasets: Datasets, outputName: string): CreateTrainingJob {
  const method = methodOf(body);
  return {
    base_model: body.model,
    method: METHODS[method.type],
    output_name: outputName,
    ...datasets,
    hyperparameters: hyperparametersOf(method),
    lora: {},
    ...(method.type === "reinforcement"
      ? { reward_source: rewardSource(method.reinforcement.grader), reward_language: "python" as const }
      : {}),
    ...(typeof body.seed === "number" ? { seed: body.seed } : {}),
    metadata: body.metadata ?? {},
  };
}

const FIELDS: readonly [training: string, field: string][] = [
  ["base_model", "model"],
  ["eval_dataset", "validation_file"],
  ["dataset", "training_file"],
  ["reward_source", "method/reinforcement/grader"],
  ["hyperparameters", "method"],
];

/** The error in the words of the fine-tuning request. */
export function renamed(error: unknown): unknown {
  if (!(error instanceof AppError) || typeof error.param !== "string") return error;
  const pair = FIELDS.find(([training]) => error.param === `/${training}` || error.param?.startsWith(`/${training}/`));
  if (!pair) return error;
  const [training, field] = pair;
  const message = error.message.replace(new RegExp(`^${training}\\b`), field.replaceAll("/", "."));
  return new AppError(error.code, message, { param: `/${field}`, cause: error });
}

/** Such as `ft-verk-tiny-support-8f3k2a`. Without a colon, which separates an adapter from its base. */
export function servedName({ model, suffix }: CreateFineTuningJob, unique: string): string {
  const base = model
    .split("/")
    .at(-1)
    ?.split(":")[0]
    ?.replace(/\.gguf$/i, "")
    .slice(0, 24);
  return ["ft", base, suffix, unique.slice(-6)].filter(Boolean).join("-").slice(0, 100);
}
