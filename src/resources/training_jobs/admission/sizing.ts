/** What a job takes: hardware, memory, time, money. Asked before anything is queued. */

import { availableParallelism } from "node:os";
import type { Ctx } from "../../../context.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import type { ModelShape } from "../../../lib/gguf/shape.ts";
import type { Method } from "../../../lib/training/hyperparameters.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import { estimateMemory } from "../../../lib/training/memory.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type * as budgets from "../../billing/budget.ts";
import * as billing from "../../billing/service.ts";
import { chooseHardware } from "../../gpu/hardware.ts";
import type { Wanted } from "./clone.ts";
import type { Faults } from "./faults.ts";

export type Place = { type: string; count: number; capacityBytes: number; rateMicros: number | null };

export async function placeFor(ctx: Ctx, wanted: Wanted, faults: Faults): Promise<Place> {
  const provider = wanted.provider ?? "local";
  if (provider !== "local") faults.refuse("/provider", `${provider} runs no jobs here: leave it out, or say local`);
  const { type, count, devices, problem } = await chooseHardware(ctx, wanted.gpu);
  if (problem) faults.refuse(problem.param, problem.message);
  else if (count > 1 && wanted.method !== "custom")
    faults.refuse("/gpu/gpu_count", "one device trains a job: say 1, or leave it out");
  const rooms = devices.filter((device) => device.type === type).map((device) => device.capacityBytes);
  const rate = billing.rateFor(ctx, "local", type);
  return { type, count, capacityBytes: Math.max(0, ...rooms), rateMicros: rate === null ? null : rate * count };
}

export type Size = {
  method: Method;
  shape: ModelShape;
  lora: LoraSettings | null;
  values: Resolved<Method>;
};

export type Fit = { memoryBytes: number; microDivisor: number };
/** With less in a micro-batch where all of it does not fit: slower, but the same result. */
const DIVISORS = [1, 4];

export function fitFor(size: Size, place: Place, faults: Faults): Fit | undefined {
  const device = place.type === "cpu" ? "cpu" : "cuda";
  const { method, lora, values } = size;
  const tried = DIVISORS.map((microDivisor) => ({
    microDivisor,
    memoryBytes: Math.ceil(
      estimateMemory(size.shape, { method, lora, hyperparameters: values, microDivisor, device }).total,
    ),
  }));
  const fit = tried.find(({ memoryBytes }) => memoryBytes <= place.capacityBytes);
  const least = Math.min(...tried.map(({ memoryBytes }) => memoryBytes));
  if (fit) return fit;
  if (place.capacityBytes === 0) return undefined; // there is no such device, which was told
  faults.refuse(
    "/hyperparameters",
    `this takes ${formatBytes(least)}, and a device of type ${place.type} can give ${formatBytes(place.capacityBytes)}: lower max_completion_length, max_length or per_device_train_batch_size, use LoRA, or a smaller model`,
  );
  return undefined;
}

/** Of one step, by the arithmetic alone: right within a factor of a few, for want of a measurement. */
export function roughStepMs({ method, shape, values }: Size, place: Place): number {
  const each = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const lengths = values as Partial<Resolved<"sft"> & Resolved<"grpo">>;
  const tokens = (lengths.max_length ?? lengths.max_completion_length ?? shape.context_length) / 2; // few are full
  const passes = { grpo: 12, sft: 8, dpo: 20 }[method]; // times parameters and tokens: forwards, backward, sampling
  const operations = each * tokens * shape.parameters * passes;
  const perSecond = place.type === "cpu" ? 2e10 * availableParallelism() : 1e14 * place.count;
  return (operations / perSecond) * 1000;
}

/** 402 where the workspace or the key cannot pay for what it is estimated to take. */
export function mustAfford(ctx: Ctx, payer: budgets.Payer, most: number | null, estimate: number) {
  billing.mustAfford(ctx, payer, most === null ? estimate : Math.min(most, estimate));
}

export function checkLimits(ctx: Ctx, { max_runtime_minutes: minutes }: Wanted, faults: Faults) {
  const most = ctx.config.training.max_runtime_minutes;
  if (minutes !== undefined && minutes > most)
    faults.refuse("/max_runtime_minutes", `takes at most ${most} (training.max_runtime_minutes)`);
}

/** Nobody knows what a command takes. */
export const CUSTOM_FIT: Fit = { memoryBytes: 0, microDivisor: 1 };
