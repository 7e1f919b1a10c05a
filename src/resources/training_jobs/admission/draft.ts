/**
 * Whether a job can be had, and all that is decided about it before it is queued. Everything that can be known without
 * its rows is looked at first: only then are the rows pinned, which may read a source for hours.
 */
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import { microsOf } from "../../../lib/money.ts";
import type { Format } from "../../../lib/rows/format.ts";
import type { Given, Method } from "../../../lib/training/hyperparameters.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import * as billing from "../../billing/service.ts";
import type { ModelRow } from "../../models/table.ts";
import type { Rewards } from "../table.ts";
import { type Wanted, wantedOf } from "./clone.ts";
import { type CreateTrainingJob, MAX_SEED } from "./create_schema.ts";
import { Faults } from "./faults.ts";
import { readGiven, readLora, type Settled, settle } from "./hyperparameters.ts";
import * as references from "./references.ts";
import { admitRewards } from "./rewards.ts";
import * as sizing from "./sizing.ts";

export type Asker = { workspaceId: string; keyId: string; scopes: readonly string[]; signal: AbortSignal };

/** The rows of a job. `snapshotNumber` null: as they are now, which only a preview may read. */
export type Rows = {
  datasetId: string;
  snapshotNumber: number | null;
  sha256: string | null;
  rows: number;
  format: Format | null;
};

/** What is known before the rows are. Fields are missing where something is wrong with them. */
export type Draft = {
  id: string;
  workspaceId: string;
  keyId: string;
  wanted: Wanted;
  seed: number;
  faults: Faults;
  place: sizing.Place;
  rewards: Rewards;
  model: ModelRow | undefined;
  lora: LoraSettings | null | undefined;
  given: Given<Method> | undefined;
};

export async function draft(ctx: Ctx, asker: Asker, body: CreateTrainingJob): Promise<Draft> {
  const { workspaceId, keyId, signal } = asker;
  const faults = new Faults();
  const wanted = faults.attempt(() => wantedOf(ctx, workspaceId, body)) ?? {};
  references.mayAttachSecrets(asker.scopes, wanted);
  const { method } = wanted;
  const seed = wanted.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]! % (MAX_SEED + 1);
  faults.attempt(() => billing.mustAfford(ctx, asker, 0));
  if (method === undefined) faults.refuse("/method", "is missing: say grpo, sft, dpo or custom");
  const managed = method === undefined || method === "custom" ? undefined : method;
  const model = managed && baseModel(ctx, workspaceId, wanted, faults);
  checkDatasets(ctx, workspaceId, wanted, faults);
  const lora = managed && loraOf(ctx, workspaceId, { wanted, model, faults });
  const given = managed && readGiven(managed, wanted, faults);
  const place = await sizing.placeFor(ctx, wanted, faults);
  sizing.checkLimits(ctx, wanted, faults);
  references.checkCode(ctx, workspaceId, wanted, faults);
  references.checkKept(ctx, workspaceId, wanted, faults);
  if (method === "custom") checkCustom(wanted, faults);
  const rewards = await admitRewards(ctx, wanted, { workspaceId, seed, signal }, faults);
  const id = newId("job", ctx.clock.now());
  return { id, workspaceId, keyId, wanted, seed, faults, place, rewards, model, lora, given };
}

function baseModel(ctx: Ctx, workspaceId: string, { base_model: name }: Wanted, faults: Faults): ModelRow | undefined {
  if (name !== undefined) return faults.attempt(() => references.modelFor(ctx, workspaceId, name));
  faults.refuse("/base_model", "is missing: say which model is to be trained");
  return undefined;
}

function checkDatasets(ctx: Ctx, workspaceId: string, wanted: Wanted, faults: Faults) {
  const { method, dataset, eval_dataset: held } = wanted;
  if (dataset === undefined && method !== undefined && method !== "custom")
    faults.refuse("/dataset", "is missing: say which rows it learns from");
  for (const [reference, param] of [
    [dataset, "/dataset"],
    [held, "/eval_dataset"],
  ] as const)
    if (reference)
      faults.attempt(() => {
        const row = references.datasetFor(ctx, workspaceId, reference, param);
        if (method !== undefined) references.mustSuit(method, row, param);
      });
}

type Begins = { wanted: Wanted; model: ModelRow | undefined; faults: Faults };

/** Where it begins with a checkpoint and says nothing else, the settings are that checkpoint's. */
function loraOf(ctx: Ctx, workspaceId: string, { wanted, model, faults }: Begins): LoraSettings | null | undefined {
  const { resume_from: from } = wanted;
  const start = from ? faults.attempt(() => references.startOf(ctx, workspaceId, from)) : undefined;
  const lora = start && wanted.lora === undefined ? start.job.lora : readLora(wanted, faults);
  if (start && model && lora !== undefined) faults.attempt(() => references.mustContinue(start, model, lora));
  return lora;
}

function checkCustom(wanted: Wanted, faults: Faults) {
  if (wanted.resume_from) faults.refuse("/resume_from", "does not go with custom: its command knows where to begin");
  if (Object.keys(wanted.hyperparameters ?? {}).length > 0)
    faults.refuse("/hyperparameters", "do not go with custom: write them into the command");
}

/** What follows from the rows: every hyperparameter, the number of steps, memory, cost. */
export type Sized = Partial<Settled> & sizing.Fit & { stepMs: number | null };

export function sized(ctx: Ctx, made: Draft, rows: Rows | undefined): Sized | undefined {
  const { wanted, faults, place, model, lora, given } = made;
  const { method } = wanted;
  if (method === "custom") return { ...sizing.CUSTOM_FIT, stepMs: null };
  if (!method || !rows) return undefined;
  if (rows.rows === 0) {
    faults.refuse("/dataset", "has no rows");
    return undefined;
  }
  const shape = model?.shape;
  if (!shape || lora === undefined || !given || !rows.format) return undefined;
  const settled = settle(given, { method, lora, shape, rows: rows.rows, format: rows.format }, faults);
  if (!settled) return undefined;
  const size = { method, shape, lora, values: settled.values };
  const fit = sizing.fitFor(size, place, faults);
  if (!fit) return undefined;
  const stepMs = sizing.roughStepMs(size, place);
  const most = wanted.max_cost_usd ? microsOf(wanted.max_cost_usd) : null;
  const cost = billing.costOf(place.rateMicros, stepMs * settled.totalSteps);
  const isToldSo = faults.errors.some(({ code }) => code === "insufficient_credits" || code === "budget_exceeded");
  if (!isToldSo) faults.attempt(() => sizing.mustAfford(ctx, made, most, cost));
  return { ...settled, ...fit, stepMs };
}
