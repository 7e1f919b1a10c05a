// tier: all (trains models)
/** Whole jobs of GRPO in emulation: which of them sample exactly, and what they report. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { HyperparameterInput } from "../../../src/lib/training/fields.ts";
import { tempDir } from "../../harness.ts";
import { type ModelOptions, makeModel } from "../../models.ts";
import { canEmulate, openEmulation } from "../../native/emulation/device.ts";
import { planOf, runTraining, stream } from "../../trainer_kit.ts";
import { openEmulatedKernels } from "../engine/emulated_kernels.ts";
import { runRanks, seats } from "../ranks/kit.ts";
import { LORA, loud, series, TASKS } from "../tasks.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const MODEL: ModelOptions = {
  arch: "qwen2",
  type: "BF16",
  layers: 1,
  width: 64,
  heads: 1,
  kvHeads: 1,
  headLength: 64,
  ff: 64,
  context: 320,
  sharpness: 1,
};
/** A generation is learned from in two steps. The second one compares with the weights that sampled it. */
const GRPO: HyperparameterInput<"grpo"> = {
  learning_rate: 0.01,
  num_generations: 2,
  per_device_train_batch_size: 2,
  steps_per_generation: 2,
  max_steps: 3,
  max_completion_length: 70,
  exact_sampling: true,
};
const BY_DEFAULT = { max_steps: 1, max_completion_length: 256, exact_sampling: null } as const;
let runs = 0;

describe.skipIf(!canEmulate)("a job", () => {
  const model = makeModel(dir, MODEL);
  const planned = (given: HyperparameterInput<"grpo">, dropout = 0) =>
    planOf({
      dir,
      model,
      context: 320,
      method: "grpo",
      rows: TASKS.grpo,
      lora: { ...LORA, dropout },
      given: { ...GRPO, ...given },
    });
  type Plan = Awaited<ReturnType<typeof planned>>;
  /** `major`: of the compute capability. Only 9 has the library's exact products. */
  const options = (plan: Plan, major: number) => {
    const device = openEmulation({ isExact: major === 9 });
    const kernels = { ...openEmulatedKernels(), exact: () => device.exact()?.products ?? null };
    const checkpoints = join(dir, `checkpoints-${runs++}`);
    return {
      plan,
      dir,
      checkpoints,
      score: loud,
      saveSteps: 1,
      sampler: { device },
      emulated: { kernels, major },
    };
  };
  const found = ({ error, steps, of }: Awaited<ReturnType<typeof runTraining>>) => {
    expect(error).toBeNull();
    const told = ["mean", "max"].map((part) => series(steps, `sampling/sampling_logp_difference/${part}`));
    const ratios = ["min", "max"].map((part) => series(steps, `sampling/importance_sampling_ratio/${part}`));
    const lines = of("log").map(({ line }) => line);
    return { differences: told.flat(), ratios: ratios.flat(), line: lines.find((each) => each.includes("sampling")) };
  };
  const EXACT = {
    differences: [0, 0, 0, 0, 0, 0],
    ratios: [1, 1, 1, 1, 1, 1],
    line: "exact sampling: the sampler's log-probabilities equal the trainer's bit for bit",
  };

  test("goes on exactly after it was resumed within a generation", async () => {
    const plan = await planned({});
    const whole = await runTraining(options(plan, 9));
    expect(found(whole)).toEqual(EXACT);
    expect(whole.of("log").filter(({ stream: to }) => to === "stderr")).toEqual([]);
    const rest = await runTraining({ ...options(plan, 9), resume: whole.checkpoints[0]!.path });
    expect(stream(rest.steps)).toEqual(stream(whole.steps).slice(1));
  }, 240_000);

  test("has the same numbers on two ranks", async () => {
    const plan = await planned({});
    const [alone, together] = [await runRanks(1, 2, options(plan, 9)), await runRanks(2, 2, options(plan, 9))];
    expect(found(together)).toEqual(EXACT);
    expect(stream(together.steps)).toEqual(stream(alone.steps));
  }, 240_000);

  test("samples as usual on ranks whose GPUs differ", async () => {
    const plan = await planned(BY_DEFAULT);
    const ranks = await Promise.all(seats(2).map((each, i) => runTraining({ ...options(plan, 9 - i), ranks: each })));
    const why = "the GPUs have different compute capabilities, which sum in different orders";
    for (const rank of ranks) expect(found(rank).line).toBe(`usual sampling, not exact: ${why}`);
  }, 240_000);

  test("samples exactly by default on some GPUs only, and on others if it demands it", async () => {
    const plan = await planned(BY_DEFAULT);
    const once = { ...EXACT, differences: [0, 0], ratios: [1, 1] };
    expect(found(await runTraining(options(plan, 9)))).toEqual(once);
    const usual = found(await runTraining(options(plan, 8)));
    expect(usual.line).toBe("usual sampling, not exact: it is slower on a GPU of compute capability 8");
    expect(usual.differences.every((each) => each > 0)).toBe(true);
    expect(found(await runTraining(options(await planned({ max_steps: 1 }), 8)))).toEqual(once);
  }, 240_000);

  test("samples as usual if the field is false", async () => {
    const usual = found(await runTraining(options(await planned({ max_steps: 1, exact_sampling: false }), 9)));
    expect(usual.line).toBe("usual sampling, not exact: exact_sampling is false");
    expect(usual.differences.every((each) => each > 0)).toBe(true);
  }, 240_000);

  test("is refused if it demands what it cannot have", async () => {
    const plan = await planned({}, 0.1);
    await expect(runTraining(options(plan, 9))).rejects.toThrow(
      "exact_sampling cannot be true: the adapter has a dropout of 0.1. Leave it out for the usual sampling",
    );
  });
});
