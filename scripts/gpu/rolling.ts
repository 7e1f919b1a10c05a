/** The sampler has what the trainer learned: an adapter that is synced and taken away, and whole weights. */
import { openRandom } from "../../src/lib/random.ts";
import type { TrainPlan } from "../../src/workers/protocol_trainer.ts";
import { createSync } from "../../src/workers/trainer/learned.ts";
import { adapterBytes } from "../../src/workers/trainer/results/adapter_gguf.ts";
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { Roller } from "../../src/workers/trainer/rollouts/types.ts";
import { openTrainee, type Trainee } from "../../src/workers/trainer/trainee/trainee.ts";
import type { Piece } from "../../src/workers/trainer/trainee/types.ts";
import { alone, LORA, likelihood, STEP } from "../../test/ml/trainee/kit.ts";
import { smallModel } from "./learning.ts";
import type { FileType, Part, Setup } from "./setup.ts";

const SAMPLING = { temperature: 1, topP: 1, topK: 0, minP: 0, maxTokens: 24 };
const LENGTH = 64;
const VOCAB = 250;
const NEAR = 0.03; // nats, in the mean
const NEAR_Q8_0 = 0.05; // a device rounds what it multiplies by Q8_0 to eight bits too
const FAR = 3; // times as much, where what was learned is missing

/** Two of each prompt's samples are drawn by each of two engines. */
const GROUP = 4;
/**
 * Fewer prompts on the processor, where only the check itself is tested: `test/ml` tests what the processor computes.
 */
const groupsOn = ({ machine }: Setup) => (machine.gpus.length > 0 ? 8 : 2);

export const opened = (setup: Setup, modelPath: string, lora: typeof LORA | null): Promise<Trainee> =>
  openTrainee({
    dataDir: setup.dir,
    modelPath,
    device: setup.device,
    lora,
    seed: 1,
    maxLength: LENGTH,
    checkpointing: false,
    temperature: 1,
    microDivisor: 1,
  });

/** Always the same, of one length. */
export function pieces(count: number): Piece[] {
  const random = openRandom(3);
  return Array.from({ length: count }, () => ({
    tokens: Int32Array.from({ length: LENGTH / 2 }, () => Math.floor(random() * VOCAB)),
    from: 1,
  }));
}

export async function teach(trainee: Trainee, steps: number, learningRate: number, count = 16) {
  const some = pieces(count);
  for (let i = 0; i < steps; i++) {
    await trainee.learn(alone(some), likelihood(some), { dropoutSeed: i });
    trainee.step({ ...STEP, learningRate });
  }
}

const rollerOf = (setup: Setup, modelPath: string, kernels: boolean, trainee?: Trainee) =>
  openRoller({
    dataDir: setup.dir,
    modelPath,
    contextLength: LENGTH,
    parallel: groupsOn(setup) * GROUP,
    engines: 2,
    kernels,
    ...(trainee ? { frozen: trainee.frozen } : {}),
    ...setup.machine,
  });

/** Between what the sampler said of its tokens and what the trainer says of them, in the mean. */
async function gap(setup: Setup, roller: Roller, trainee: Trainee, how: { reference?: boolean } = {}) {
  const requests = pieces(groupsOn(setup)).map(({ tokens }, i) => ({ prompt: tokens, samples: GROUP, seed: i }));
  const rolled = await roller.roll(requests, SAMPLING);
  const drawn = rolled.flatMap((group, g) =>
    group.map(({ tokens, logps }) => {
      const { prompt } = requests[g]!;
      const piece = { tokens: Int32Array.from([...prompt, ...tokens]), from: prompt.length };
      return { piece, said: logps ?? new Float32Array(tokens.length).fill(Number.NaN) };
    }),
  );
  const scored = await trainee.score(
    drawn.map(({ piece }) => piece),
    how,
  );
  const differences = drawn.flatMap(({ said }, i) => [...said].map((logp, t) => Math.abs(logp - scored[i]!.logps[t]!)));
  return differences.reduce((a, b) => a + b, 0) / differences.length;
}

const row = (what: string, found: number, { near = NEAR, stale = Number.POSITIVE_INFINITY } = {}) => ({
  what,
  value: `${found.toFixed(4)} nats apart in the mean`,
  target: `≤ ${near}`,
  ok: found <= near && stale > FAR * found,
});

export const rolling: Part = async function* (setup) {
  for (const type of ["BF16", "Q8_0"] as const) yield* adapter(setup, type);
  for (const kernels of setup.machine.gpus.length > 0 ? [false, true] : [false]) yield* whole(setup, kernels);
  if (setup.machine.gpus.length > 0) for (const type of ["BF16", "F16"] as const) yield* ownKernels(setup, type);
};

/** Our own kernels have the adapter merged, for files in F16 too. */
async function* ownKernels(setup: Setup, type: FileType): ReturnType<Part> {
  for (const arch of ["llama", "qwen2", "qwen3"] as const) {
    const model = await smallModel(setup, arch, type);
    const trainee = await opened(setup, model, LORA);
    const roller = await rollerOf(setup, model, true, trainee);
    const what = `${arch} ${type} by our own kernels`;
    yield row(`${what}, before anything was learned`, await gap(setup, roller, trainee));
    await teach(trainee, 10, 0.01, 2 * groupsOn(setup));
    const stale = await gap(setup, roller, trainee);
    const merged = await roller.merge((at) => trainee.merge(at));
    yield { what: `${what}, merged`, value: String(merged), target: "true", ok: merged };
    yield row(`${what}, after it was merged`, await gap(setup, roller, trainee), { stale });
    await roller.close();
    trainee.close();
  }
}

async function* adapter(setup: Setup, type: FileType): ReturnType<Part> {
  const model = await smallModel(setup, "llama", type);
  const trainee = await opened(setup, model, LORA);
  const roller = await rollerOf(setup, model, false);
  const near = type === "Q8_0" ? NEAR_Q8_0 : NEAR;
  yield row(`${type}, before anything was learned`, await gap(setup, roller, trainee), { near });
  await teach(trainee, 10, 0.01, 2 * groupsOn(setup));
  const stale = await gap(setup, roller, trainee);
  await roller.sync(await adapterBytes(trainee.adapter()));
  yield row(`${type}, a learned adapter, synced`, await gap(setup, roller, trainee), { near, stale });
  yield { what: `${type}, the same before it was synced`, value: stale.toFixed(4), target: "more", ok: null };
  await roller.sync(null);
  yield row(`${type}, the adapter taken away`, await gap(setup, roller, trainee, { reference: true }), { near });
  const merged = await roller.merge((at) => trainee.merge(at));
  const may = setup.machine.gpus.length > 0 && type === "BF16";
  yield { what: `${type}, merged into the weights`, value: String(merged), target: String(may), ok: merged === may };
  if (merged) yield row(`${type}, after it was merged`, await gap(setup, roller, trainee), { near, stale });
  await roller.close();
  trainee.close();
}

async function* whole(setup: Setup, kernels: boolean): ReturnType<Part> {
  const model = await smallModel(setup, "qwen2", "BF16");
  const trainee = await opened(setup, model, null);
  const roller = await rollerOf(setup, model, kernels);
  const plan = { lora: null, model_path: model } as unknown as TrainPlan;
  const sync = createSync({ trainee, roller, plan, fresh: true, machine: { data_dir: setup.dir, ...setup.machine } });
  await teach(trainee, 10, 0.001, 2 * groupsOn(setup));
  const stale = await gap(setup, roller, trainee);
  await sync();
  const reloaded = await gap(setup, roller, trainee);
  const by = kernels ? "our own kernels" : "the library";
  yield row(`all weights by ${by}, learned and loaded again`, reloaded, { stale });
  yield {
    what: `all weights by ${by}, before they were loaded again`,
    value: stale.toFixed(4),
    target: "more",
    ok: null,
  };
  await roller.close();
  trainee.close();
}
