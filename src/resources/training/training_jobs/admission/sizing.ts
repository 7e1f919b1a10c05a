/** Estimates what a job takes: hardware, memory, time, money. */
import { availableParallelism } from "node:os";
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import type { ModelShape } from "../../../../lib/gguf/shape.ts";
import { microsOf } from "../../../../lib/money.ts";
import type { Format } from "../../../../lib/rows/format.ts";
import type { Method } from "../../../../lib/training/fields.ts";
import type { LoraSettings } from "../../../../lib/training/lora.ts";
import { canBe4Bit, estimateMemory, IN_4_BIT } from "../../../../lib/training/memory.ts";
import type { Resolved } from "../../../../lib/training/resolve.ts";
import * as billing from "../../../money/billing/service.ts";
import type { Hardware } from "../remote/placing.ts";
import type { JobRequest } from "./clone.ts";
import type { Draft, Training } from "./draft.ts";
import { Faults, type Result } from "./faults.ts";
import { resolve } from "./hyperparameters.ts";

/** The rows of a job. `snapshotNumber` null means the rows as they are now, which only a preview may read. */
export type Rows = {
  datasetId: string;
  snapshotNumber: number | null;
  sha256: string | null;
  rows: number;
  format: Format | null;
};

const SAVES = 10;

/** Steps between the checkpoints of a job without checkpoint.save_steps. */
export const saveStepsFor = (totalSteps: number) => Math.ceil(totalSteps / SAVES);

/** Everything that follows from the rows. `values` and `totalSteps` are null for a custom job. */
export type Size = {
  values: Resolved<Method> | null;
  totalSteps: number | null;
  stepMs: number | null;
  memoryBytes: number;
  microDivisor: number;
};

/** The memory and the time of a command are unknown, and so are those of a model that is not here yet. */
export const UNKNOWN_SIZE: Size = { values: null, totalSteps: null, stepMs: null, memoryBytes: 0, microDivisor: 1 };

/** A training whose model is known. */
export type Sizing = Pick<Training, "method" | "lora" | "given" | "teacher"> & { shape: ModelShape };

export function sizeOf(training: Sizing, hardware: Hardware, rows: Rows): Result<Size> {
  const faults = new Faults();
  return faults.result(sized(training, hardware, { rows, faults }));
}

function sized(training: Sizing, hardware: Hardware, { rows, faults }: { rows: Rows; faults: Faults }) {
  if (rows.rows === 0 || rows.format === null) return void faults.refuse("/dataset", "has no rows");
  const { method, shape, lora } = training;
  const resolved = resolve(training.given, { method, lora, shape, rows: rows.rows, format: rows.format }, faults);
  if (!resolved) return undefined;
  const teacher = training.teacher?.shape ?? undefined;
  const run = { method, shape, lora, teacher, values: resolved.values };
  const device = hardware.type === "cpu" ? "cpu" : "cuda";
  if (resolved.values.load_in_4bit && !canBe4Bit(shape, { method, lora, hyperparameters: resolved.values, device }))
    return void faults.refuse("/hyperparameters/load_in_4bit", `cannot be true here: ${IN_4_BIT}`);
  const memory = memoryFor(run, hardware, faults);
  return memory && { ...resolved, ...memory, stepMs: roughStepMs(run, hardware) };
}

type TrainingRun = {
  method: Method;
  shape: ModelShape;
  lora: LoraSettings | null;
  teacher: ModelShape | undefined;
  values: Resolved<Method>;
};

/** A smaller micro-batch is slower, but the result is the same. */
const DIVISORS = [1, 4];

function memoryFor(
  { shape, method, lora, teacher, values: hyperparameters }: TrainingRun,
  hardware: Hardware,
  faults: Faults,
): Pick<Size, "memoryBytes" | "microDivisor"> | undefined {
  const device = hardware.type === "cpu" ? "cpu" : "cuda";
  const plan = { method, lora, teacher, hyperparameters, device, ranks: hardware.count } as const;
  const estimates = DIVISORS.map((microDivisor) => ({
    microDivisor,
    each: Math.ceil(estimateMemory(shape, { ...plan, microDivisor }).total),
  }));
  const fit = estimates.find(({ each }) => each <= hardware.capacityBytes);
  if (fit) return { microDivisor: fit.microDivisor, memoryBytes: fit.each * plan.ranks };
  const least = Math.min(...estimates.map(({ each }) => each));
  faults.refuse(
    "/hyperparameters",
    `this takes ${formatBytes(least)}${plan.ranks > 1 ? " on each device" : ""}, and a device of type ${hardware.type} can give ${formatBytes(hardware.capacityBytes)}: lower max_completion_length, max_length or per_device_train_batch_size, use LoRA, or a smaller model`,
  );
  return undefined;
}

/** Time of one step, from the arithmetic alone. It may be wrong by a factor of a few; a preview measures it. */
function roughStepMs({ method, shape, teacher, values }: TrainingRun, hardware: Hardware): number {
  const sequences = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const lengths = values as Partial<Resolved<"sft"> & Resolved<"grpo">>;
  const tokens = (lengths.max_length ?? lengths.max_completion_length ?? shape.context_length) / 2; // few are full
  const passes = { grpo: 12, rloo: 14, distill: 12, sft: 8, dpo: 20, kto: 14, orpo: 16 }[method]; // times parameters and tokens: forward, backward, sampling
  const operations = sequences * tokens * (shape.parameters * passes + (teacher?.parameters ?? 0) * 2);
  const perSecond = hardware.type === "cpu" ? 2e10 * availableParallelism() : 1e14 * hardware.count;
  return (operations / perSecond) * 1000;
}

/** 402 if the payer cannot pay for the estimate, or for `max_cost_usd` if that is less. */
export function mustAffordEstimate(ctx: Ctx, { payer, request, hardware }: Draft, { stepMs, totalSteps }: Size) {
  if (stepMs === null || totalSteps === null) return;
  const estimate = billing.costOf(hardware.rateMicros, stepMs * totalSteps);
  const most = request.max_cost_usd ? microsOf(request.max_cost_usd) : estimate;
  billing.mustAfford(ctx, payer, { ratePerHourMicros: hardware.rateMicros, micros: Math.min(most, estimate) });
}

export function checkLimits(ctx: Ctx, { max_runtime_minutes: minutes }: JobRequest, faults: Faults) {
  const most = ctx.config.training.max_runtime_minutes;
  if (minutes !== undefined && minutes > most)
    faults.refuse("/max_runtime_minutes", `must be at most ${most} (training.max_runtime_minutes)`);
}
