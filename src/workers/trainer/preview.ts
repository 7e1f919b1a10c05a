/** Previews a job: real samples, real rewards, the time of a step. Nothing is changed or stored. */
import type { RolledMethod } from "../../lib/training/fields.ts";
import type { PreviewTask } from "../protocol_trainer.ts";
import { rollGroups, toldSample } from "./loop/rollout.ts";
import type { World } from "./loop/types.ts";
import { type Opened, valuesOf } from "./open.ts";
import type { Piece, Scores } from "./trainee/types.ts";

/** Maximum units of a step to compute; the rest is extrapolated. */
const MOST_UNITS = 8;

export async function preview(world: World, opened: Opened, task: PreviewTask): Promise<void> {
  const { send } = world;
  const { roller, prompts } = opened;
  if (!prompts || !roller) {
    const { units, all } = someUnits(opened, task);
    const step_ms = units.length === 0 ? null : ((await learnMs(world, units)) * all) / units.length;
    return send({ type: "previewed", memory_bytes: world.memoryBytes(), step_ms, samples: [], latencies_ms: [] });
  }
  const values = valuesOf<RolledMethod>(task.plan);
  const count = Math.min(task.prompts, prompts.count);
  const indices = Array.from({ length: count }, (_, i) => Math.floor((i * prompts.count) / count));
  const kit = { world, roller, values, seed: task.plan.seed };
  const begun = world.now();
  const samples = values.num_generations;
  const rolled = await rollGroups(kit, { prompts, indices, samples, salt: [0], step: 0 });
  const rollMs = world.now() - begun;
  const drawn = rolled.groups.flat();
  const whole = drawn.filter(({ tokens, from }) => tokens.length > from).slice(0, MOST_UNITS);
  const perStep = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const learning =
    whole.length === 0
      ? 0
      : ((await learnMs(
          world,
          whole.map((each) => [each]),
        )) *
          perStep) /
        whole.length;
  // A generation serves several steps.
  const share = (values.steps_per_generation * values.num_iterations) / values.gradient_accumulation_steps;
  const rolling = (rollMs * values.generation_batch_size) / Math.max(drawn.length, 1) / share;
  send({
    type: "previewed",
    memory_bytes: world.memoryBytes(),
    step_ms: drawn.length === 0 ? null : rolling + learning,
    samples: drawn.map((each) => toldSample(each, prompts.get(each.prompt).prompt)),
    latencies_ms: rolled.latencies,
  });
}

/** Runs forward and backward with all weights 0: gradients stay 0, and no step is made. */
async function learnMs({ trainee, now }: World, units: readonly (readonly Piece[])[]): Promise<number> {
  const weigh = (_: number, scores: readonly Scores[]) => scores.map(({ logps }) => new Float32Array(logps.length));
  await trainee.learn(units, weigh, { dropoutSeed: 0 }); // warm-up: the first run builds the graphs
  const begun = now();
  await trainee.learn(units, weigh, { dropoutSeed: 0 });
  return now() - begun;
}

/** Returns some units of a step, and the number of all its units. */
function someUnits({ sequences, pairs, answers }: Opened, { plan }: PreviewTask): { units: Piece[][]; all: number } {
  const values = valuesOf<"sft">(plan);
  const rows = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const of = sequences ?? pairs ?? answers;
  const taken = Math.min(of?.count ?? 0, rows, MOST_UNITS);
  const units = Array.from({ length: taken }, (_, i): Piece[][] => {
    if (sequences) return sequences.get(i).map((each) => [each]);
    if (answers) return [[answers.get(i)]];
    const { chosen, rejected } = pairs!.get(i);
    return [[chosen, rejected]];
  }).flat();
  return { units, all: (units.length * Math.min(rows, of?.count ?? 0)) / Math.max(taken, 1) };
}
