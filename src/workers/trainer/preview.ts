/** Previews a job: real samples, real rewards, the time of a step. Nothing is changed or stored. */
import { rollGroups, toldSample, turnsOf } from "./loop/rollout.ts";
import type { RolledRecipe, RowRecipe, World } from "./loop/types.ts";
import type { Roller } from "./rollouts/types.ts";
import type { Piece, Scores } from "./trainee/types.ts";

/** Maximum units of a step to compute; the rest is extrapolated. */
const MOST_UNITS = 8;

export async function previewRows(world: World, { values, count, units }: RowRecipe): Promise<void> {
  const rows = Math.min(count, values.per_device_train_batch_size * values.gradient_accumulation_steps);
  const taken = Math.min(rows, MOST_UNITS);
  const some = Array.from({ length: taken }, (_, i) => units(i)).flat();
  const all = (some.length * rows) / Math.max(taken, 1); // units of a whole step
  const step_ms = some.length === 0 ? null : ((await learnMs(world, some)) * all) / some.length;
  world.send({ type: "previewed", memory_bytes: world.memoryBytes(), step_ms, samples: [], latencies_ms: [] });
}

/** `most`: prompts to sample, at most. */
type Rolling = { recipe: RolledRecipe; roller: Roller; seed: number; most: number };

export async function previewRolled(world: World, { recipe, roller, seed, most }: Rolling): Promise<void> {
  const { values, prompts } = recipe;
  const count = Math.min(most, prompts.count);
  const indices = Array.from({ length: count }, (_, i) => Math.floor((i * prompts.count) / count));
  const begun = world.now();
  const samples = values.num_generations;
  const kit = { world, roller, values, turns: turnsOf(recipe.turns), seed };
  const rolled = await rollGroups(kit, { prompts, indices, samples, salt: [0], step: 0 });
  const rollMs = world.now() - begun;
  const drawn = rolled.groups.flat();
  const whole = drawn.filter(({ tokens, from }) => tokens.length > from).slice(0, MOST_UNITS);
  const perStep = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const learning =
    whole.length === 0
      ? 0
      : (((await learnMs(
          world,
          whole.map((each) => [each]),
        )) +
          (await judgedMs(world, whole))) *
          perStep) /
        whole.length;
  // A generation serves several steps.
  const share = (values.steps_per_generation * values.num_iterations) / values.gradient_accumulation_steps;
  const rolling = (rollMs * values.generation_batch_size) / Math.max(drawn.length, 1) / share;
  world.send({
    type: "previewed",
    memory_bytes: world.memoryBytes(),
    step_ms: drawn.length === 0 ? null : rolling + learning,
    samples: drawn.map((each) => toldSample(each, prompts.get(each.prompt).prompt)),
    latencies_ms: rolled.latencies,
  });
}

/** Asks the models that only score. The first time builds their graphs. */
async function judgedMs({ reference, teacher, now }: World, pieces: readonly Piece[]): Promise<number> {
  let begun = now();
  for (let time = 0; time < 2; time++) {
    begun = now();
    await reference?.(pieces);
    await teacher?.score(pieces);
  }
  return now() - begun;
}

/** Runs forward and backward with all weights 0: gradients stay 0, and no step is made. */
async function learnMs({ trainee, now }: World, units: readonly (readonly Piece[])[]): Promise<number> {
  const weigh = (_: number, scores: readonly Scores[]) => scores.map(({ logps }) => new Float32Array(logps.length));
  await trainee.learn(units, weigh, { dropoutSeed: 0 }); // warm-up: the first run builds the graphs
  const begun = now();
  await trainee.learn(units, weigh, { dropoutSeed: 0 });
  return now() - begun;
}
