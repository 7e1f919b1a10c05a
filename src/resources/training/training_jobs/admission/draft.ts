/**
 * Checks a request for a job and decides everything that does not depend on the rows of its dataset. The rows are pinned
 * only afterwards, and those of a connected source are read by the job itself.
 */
import type { Ctx } from "../../../../context.ts";
import { newId } from "../../../../lib/ids.ts";
import { type HyperparameterInput, METHODS, type Method } from "../../../../lib/training/fields.ts";
import type { LoraSettings } from "../../../../lib/training/lora.ts";
import type { Payer } from "../../../money/billing/budget.ts";
import * as billing from "../../../money/billing/service.ts";
import { tokenFor } from "../../../serving/models/hub/token.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { hasRewards } from "../policy.ts";
import { type Hardware, hardwareFor } from "../remote/placing.ts";
import type { JobResolver, JobRow, Rewards, Warning } from "../table.ts";
import { type Base, baseFor, type Origin, originOf, withReference } from "./base_model.ts";
import { type JobRequest, requestOf } from "./clone.ts";
import { type CreateTrainingJob, MAX_SEED } from "./create_schema.ts";
import { admitCustom, type CustomJob, refuseCustomFields } from "./custom.ts";
import { type Errors, Faults } from "./faults.ts";
import { fitLora, readGiven, readLora } from "./hyperparameters.ts";
import * as references from "./references.ts";
import { admitResolver, hasResolver } from "./resolver.ts";
import { admitRewards } from "./rewards.ts";
import * as sizing from "./sizing.ts";

export type Caller = Payer & { keyId: string; scopes: readonly string[]; signal: AbortSignal };

/** The training of a job that Verk runs itself. A custom job has none. */
export type Training = {
  method: Method;
  base: Base;
  lora: LoraSettings | null;
  /** Only for distill. */
  teacher: ModelRow | null;
  given: HyperparameterInput<Method>;
};

/** The parts of a request that its size follows from. `training` is null for a custom job, and `custom` for others. */
export type Sizable = {
  request: JobRequest;
  hardware: Hardware;
  training: Training | null;
  custom: CustomJob | null;
};

export type Draft = Sizable & {
  id: string;
  payer: Payer & { keyId: string };
  method: JobRow["method"];
  seed: number;
  rewards: Rewards;
  resolver: JobResolver | null;
  warnings: readonly Warning[];
};

/** A validation shows the size beside the errors, if the request is right enough for one. */
export type Rejected = {
  errors: Errors;
  warnings: readonly Warning[];
  request: JobRequest;
  sizable: Sizable | undefined;
};
export type DraftResult = { ok: Draft } | Rejected;

/** `dry`: nothing is made or downloaded. */
type How = { dry?: boolean };

export async function draft(ctx: Ctx, caller: Caller, body: CreateTrainingJob, how: How = {}): Promise<DraftResult> {
  const { workspaceId, keyId, signal } = caller;
  const faults = new Faults();
  const merged = faults.attempt(() => requestOf(ctx, workspaceId, body)) ?? {};
  references.mayAttachSecrets(caller.scopes, merged);
  const { method } = merged;
  const seed = merged.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]! % (MAX_SEED + 1);
  if (method === undefined) faults.refuse("/method", `is missing: set it to ${METHODS.join(", ")} or custom`);
  const managed = method === "custom" ? undefined : method;
  const origin = managed && (await baseModel(ctx, workspaceId, { request: merged, faults, dry: how.dry === true }));
  const request = { ...merged, ...checkDatasets(ctx, workspaceId, merged, faults) };
  const { lora, base } = managed ? startOf(ctx, workspaceId, { request, origin, faults }) : {};
  const hyperparameters = managed && readGiven(managed, request, faults);
  const teacher = faults.attempt(() => references.teacherOf(ctx, workspaceId, request, base?.model));
  if (hyperparameters) checkHeldOut(request, hyperparameters, faults);
  const hardware = await hardwareFor(ctx, workspaceId, request, faults);
  faults.attempt(() => billing.mustAfford(ctx, caller, { ratePerHourMicros: hardware.rateMicros, micros: 0 }));
  sizing.checkLimits(ctx, request, faults);
  references.checkCode(ctx, workspaceId, request, faults);
  const custom = method === "custom" ? commandOf(ctx, workspaceId, { request, hardware, faults }) : null;
  if (managed) refuseCustomFields(request, faults);
  checkHub(ctx, workspaceId, request, lora, faults);
  const rewards = await admitRewards(ctx, request, { workspaceId, seed, signal }, faults);
  const resolver = await admitResolver(ctx, request, { workspaceId, seed, signal }, faults);
  if (hyperparameters && rewards) checkRewardsUsed(managed, hyperparameters, rewards, faults);
  const isWhole = managed && base && lora !== undefined && teacher !== undefined && hyperparameters;
  const trained = isWhole ? { method: managed, base, lora, teacher, given: hyperparameters } : undefined;
  const training = method === "custom" ? null : trained;
  const sizable = training === undefined ? undefined : { request, hardware, training, custom };
  const { warnings } = faults;
  const payer = { workspaceId, keyId };
  const id = newId("job", ctx.clock.now());
  const result = faults.result(
    sizable && method && rewards && resolver !== undefined
      ? { ...sizable, id, payer, method, seed, rewards, resolver, warnings }
      : undefined,
  );
  if ("ok" in result) return result;
  return { ...result, warnings, request, sizable: hardware.capacityBytes > 0 ? sizable : undefined };
}

type Search = { request: JobRequest; faults: Faults; dry: boolean };

async function baseModel(ctx: Ctx, workspaceId: string, { request: { base_model: name }, faults, dry }: Search) {
  if (name !== undefined) return faults.attemptLater(() => originOf(ctx, workspaceId, name, dry));
  faults.refuse("/base_model", "is missing: name the model to train");
  return undefined;
}

/** Returns the references with ids where the request has names. */
function checkDatasets(ctx: Ctx, workspaceId: string, request: JobRequest, faults: Faults) {
  const { method } = request;
  if (request.dataset === undefined && method !== undefined && method !== "custom")
    faults.refuse("/dataset", "is missing: name the dataset to train on");
  const datasets: Pick<JobRequest, "dataset" | "eval_dataset"> = {};
  for (const field of ["dataset", "eval_dataset"] as const) {
    const name = request[field];
    if (!name) continue;
    const param = `/${field}` as const;
    faults.attempt(() => {
      const reference = references.datasetById(ctx, workspaceId, name, param);
      const row = references.datasetFor(ctx, workspaceId, reference, param);
      // A resolver may make rows of another format.
      if (method !== undefined && !hasResolver(request)) references.mustSuit(method, row, param);
      datasets[field] = reference;
    });
  }
  return datasets;
}

type StartRequest = { request: JobRequest; origin: Origin | undefined; faults: Faults };
type Start = { lora?: LoraSettings | null | undefined; base?: Base | undefined };

/** A request without `lora` has the settings of the checkpoint or the adapter that it starts from. */
function startOf(ctx: Ctx, workspaceId: string, { request, origin, faults }: StartRequest): Start {
  const { resume_from: from } = request;
  const start = from ? faults.attempt(() => references.startOf(ctx, workspaceId, from)) : undefined;
  const inherited = start ? start.job.lora : origin?.kind === "adapter" ? origin.lora : undefined;
  const settings = request.lora === undefined && inherited !== undefined ? inherited : readLora(request, faults);
  const architecture = familyOf(origin);
  const lora = settings === undefined || !architecture ? settings : fitLora(settings, architecture, faults);
  if (!origin || lora === undefined) return { lora };
  if (start && origin.kind === "adapter" && origin.adapter.id !== start.job.startModelId) {
    faults.refuse("/resume_from", "leave it out: base_model is an adapter, whose weights the job starts from");
    return { lora };
  }
  const base = faults.attempt(() => baseFor(ctx, workspaceId, origin, lora));
  if (!start || !base) return { lora, base };
  faults.attempt(() => references.mustContinue(start, base.model, lora));
  return { lora, base: faults.attempt(() => withReference(ctx, workspaceId, base, start.job)) };
}

/** Undefined if the file of the model is not here yet. The job then checks it before it starts. */
function familyOf(origin: Origin | undefined): string | undefined {
  if (!origin || origin.kind === "absent") return undefined;
  return (origin.kind === "adapter" ? origin.base : origin.model).shape?.architecture;
}

/** Settings about the best evaluation need rows to evaluate on. */
function checkHeldOut({ eval_dataset }: JobRequest, hyperparameters: HyperparameterInput<Method>, faults: Faults) {
  if (eval_dataset) return;
  const needing = (["early_stopping_patience", "load_best_model_at_end", "metric_for_best_model"] as const).filter(
    (name) => hyperparameters[name] && hyperparameters[name] !== "auto",
  );
  if (needing.length > 0)
    faults.refuse(
      "/eval_dataset",
      `is missing: ${needing.join(", ")} ${needing.length === 1 ? "needs" : "need"} held-out rows`,
    );
}

/** Without rewards, settings about them would change nothing, or wait for ever. */
function checkRewardsUsed(method: Method, given: HyperparameterInput<"distill">, rewards: Rewards, faults: Faults) {
  const { dynamic_sampling: sifts, metric_for_best_model: metric } = given;
  if (!rewards.environments)
    for (const name of ["max_turns", "max_rollout_tokens"] as const)
      if (given[name] !== undefined && given[name] !== null)
        faults.refuse(
          `/hyperparameters/${name}`,
          "is only for rollouts in an environment: write a class with reset, tools and get_reward in reward_source, or leave it out",
        );
  if (method === "distill" && given.distillation_loss === "hard" && hasRewards(rewards))
    faults.refuse(
      "/hyperparameters/distillation_loss",
      "hard learns the teacher's answers as they are: leave the rewards out, or choose another distillation_loss",
    );
  if (method !== "distill" || hasRewards(rewards)) return;
  const why = "needs rewards: send reward_source or reward_functions, or leave it out";
  for (const name of ["solved_reward", "retire_after"] as const)
    if (given[name] !== undefined && given[name] !== null) faults.refuse(`/hyperparameters/${name}`, why);
  if (given.sampling !== undefined && given.sampling !== "uniform") faults.refuse("/hyperparameters/sampling", why);
  if (sifts === true) faults.refuse("/hyperparameters/dynamic_sampling", why);
  if (metric?.includes("reward")) faults.refuse("/hyperparameters/metric_for_best_model", why);
}

/** A job that cannot be pushed at its end is refused at its beginning. */
function checkHub(
  ctx: Ctx,
  workspaceId: string,
  { method, hub_repo: repo, hub_variant: variant }: JobRequest,
  lora: LoraSettings | null | undefined,
  faults: Faults,
) {
  if (!repo) {
    if (variant) faults.refuse("/hub_repo", "is missing: hub_variant says in which form the result is pushed there");
    return;
  }
  if (method === "custom") return faults.refuse("/hub_repo", "is not used by custom jobs: their result is files");
  if (variant === "adapter" && lora === null)
    faults.refuse("/hub_variant", "this job trains all weights and has no adapter: use merged or gguf");
  const access = tokenFor(ctx, workspaceId);
  if ("refusal" in access) faults.refuse("/hub_repo", access.refusal);
}

type Command = { request: JobRequest; hardware: Hardware; faults: Faults };

function commandOf(ctx: Ctx, workspaceId: string, { request, hardware, faults }: Command): CustomJob {
  references.checkSecretsAndVolumes(ctx, workspaceId, request, faults);
  if (request.resume_from) faults.refuse("/resume_from", "is not used by custom jobs: leave it out");
  if (Object.keys(request.hyperparameters ?? {}).length > 0)
    faults.refuse("/hyperparameters", "are not used by custom jobs: put them into the command");
  return admitCustom(ctx, request, { workspaceId, hardware }, faults);
}
