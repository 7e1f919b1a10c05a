/**
 * The number of optimizer steps and the learning rate of each, as transformers computes them. Step 0 is the first: with
 * a warmup its rate is 0, so it changes no weight.
 */

export const SCHEDULES = [
  "constant",
  "constant_with_warmup",
  "linear",
  "cosine",
  "cosine_with_restarts",
  "cosine_with_min_lr",
  "polynomial",
  "inverse_sqrt",
] as const;
export type ScheduleType = (typeof SCHEDULES)[number];

/** Fields of `lr_scheduler_kwargs`. `min_lr` and `min_lr_rate` exclude each other. */
export type ScheduleShape = {
  num_cycles?: number | undefined;
  min_lr?: number | undefined;
  min_lr_rate?: number | undefined;
  lr_end?: number | undefined;
  power?: number | undefined;
  timescale?: number | undefined;
};

export type Schedule = {
  type: ScheduleType;
  learningRate: number;
  warmupSteps: number;
  totalSteps: number;
  shape: ScheduleShape;
};

export function learningRate(schedule: Schedule, step: number): number {
  return schedule.learningRate * factor(schedule, step);
}

function factor(schedule: Schedule, step: number): number {
  const { type, learningRate: peak, warmupSteps, totalSteps, shape } = schedule;
  if (type === "constant") return 1; // it has no warmup either
  if (step < warmupSteps) return step / Math.max(1, warmupSteps);
  const progress = (step - warmupSteps) / Math.max(1, totalSteps - warmupSteps);
  switch (type) {
    case "constant_with_warmup":
      return 1;
    case "linear":
      return Math.max(0, 1 - progress);
    case "cosine":
      return Math.max(0, wave(2 * (shape.num_cycles ?? 0.5) * progress));
    case "cosine_with_restarts":
      return progress >= 1 ? 0 : Math.max(0, wave(((shape.num_cycles ?? 1) * progress) % 1));
    case "cosine_with_min_lr": {
      const floor = shape.min_lr === undefined ? (shape.min_lr_rate ?? 0) : shape.min_lr / peak;
      return Math.max(0, wave(2 * (shape.num_cycles ?? 0.5) * progress) * (1 - floor) + floor);
    }
    case "polynomial": {
      const end = (shape.lr_end ?? POLYNOMIAL_END) / peak;
      return (1 - end) * Math.max(0, 1 - progress) ** (shape.power ?? 1) + end;
    }
    case "inverse_sqrt": {
      const timescale = shape.timescale ?? (warmupSteps || 10_000);
      return 1 / Math.sqrt((step + timescale - warmupSteps) / timescale);
    }
  }
}

/** The default `lr_end` of transformers. */
export const POLYNOMIAL_END = 1e-7;

/** 1 at 0, 0 at 1, and back. */
const wave = (halves: number) => 0.5 * (1 + Math.cos(Math.PI * halves));

/** `warmup_steps` overrides `warmup_ratio`; below 1 it is a ratio itself. */
export function warmupSteps(totalSteps: number, settings: { warmup_steps: number; warmup_ratio: number }): number {
  if (settings.warmup_steps >= 1) return Math.floor(settings.warmup_steps);
  return Math.ceil(totalSteps * (settings.warmup_steps || settings.warmup_ratio));
}

export type StepPlan = {
  rows: number;
  num_train_epochs: number;
  /** Overrides epochs if it is positive. */
  max_steps: number;
  per_device_train_batch_size: number;
  gradient_accumulation_steps: number;
};

export type GrpoStepPlan = StepPlan & { num_generations: number; num_iterations: number; steps_per_generation: number };

/** SFT and DPO count rows or pairs. The last step of an epoch may be smaller than the others. */
export function totalSteps(plan: StepPlan): number {
  return stepsFor(plan, Math.ceil(plan.rows / plan.per_device_train_batch_size));
}

/** Returns the prompts that are sampled together; each has num_generations completions. */
export function promptsPerGeneration(plan: GrpoStepPlan): number {
  return (plan.per_device_train_batch_size * plan.steps_per_generation) / plan.num_generations;
}

/**
 * GRPO counts completions. A generation gives steps_per_generation batches, each used num_iterations times. Prompts at
 * the end of an epoch that do not fill a generation are not counted. A smaller dataset counts as one generation per
 * epoch.
 */
export function totalGrpoSteps(plan: GrpoStepPlan): number {
  const generations = Math.max(1, Math.floor(plan.rows / promptsPerGeneration(plan)));
  return stepsFor(plan, generations * plan.num_iterations * plan.steps_per_generation);
}

function stepsFor(plan: StepPlan, batchesPerEpoch: number): number {
  if (plan.max_steps > 0) return plan.max_steps;
  const stepsPerEpoch = Math.max(1, Math.ceil(batchesPerEpoch / plan.gradient_accumulation_steps));
  return Math.max(1, Math.ceil(plan.num_train_epochs * stepsPerEpoch));
}
