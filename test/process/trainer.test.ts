// tier: all (trains models)
/** The trainer as the server starts it: a separate process that receives one task. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { createLedger } from "../../src/lib/archive/entries.ts";
import { createTarReader } from "../../src/lib/archive/tar_read.ts";
import { openRandom } from "../../src/lib/random.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { sha256File } from "../../src/platform/files.ts";
import { createLog } from "../../src/platform/log.ts";
import { createSupervisor, type Supervisor } from "../../src/platform/workers/supervisor.ts";
import { grantsOf } from "../../src/resources/training/training_jobs/state/grants.ts";
import {
  type ExportTask,
  FromTrainer,
  type PreviewTask,
  type ToTrainer,
  type TrainPlan,
  type TrainTask,
} from "../../src/workers/protocol_trainer.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { logitsOf, relativeError } from "../results_kit.ts";
import { CONFINED, confinedIn, seenOf } from "../sandbox/confined.ts";
import { type Message, planOf, stream } from "../trainer_kit.ts";

const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128 });
const LORA = { r: 4, alpha: 8 };
const common = { dir, model, lora: LORA, context: 128 };
const PROMPTS = Array.from({ length: 12 }, (_, i) => ({ prompt: String.fromCharCode(97 + i) }));
const GRPO = { num_generations: 4, per_device_train_batch_size: 8, max_completion_length: 4, learning_rate: 0.01 };
const machine = { data_dir: dir, threads: 1, gpus: [] };
let supervisor: Supervisor;

beforeAll(() => {
  const program = [process.execPath, resolve(import.meta.dir, "../../src/main.ts")];
  const limits = { silence_ms: 30_000, stop_grace_ms: 5_000, stderr_tail_bytes: 8_192 };
  const log = createLog({ level: "error", write: () => {} });
  const env = { PATH: process.env["PATH"], HOME: dir };
  const sandbox = { socketDir: join(dir, "run"), confine: confinedIn(dir) };
  supervisor = createSupervisor({ log, clock: systemClock, ...sandbox, env, program, ...limits });
});
afterAll(async () => {
  await supervisor.stopAll("test over");
  rmSync(dir, { recursive: true, force: true });
});

type Scores = Omit<Message<"score">, "type">;
const LENGTHS = ({ id, samples }: Scores): ToTrainer => ({
  type: "scored",
  id,
  results: samples.map(({ completion }) => ({
    reward: String(completion).length,
    sub_rewards: { it: 1 },
    error: null,
  })),
  latencies_ms: [3],
  stdout: "",
});

/** `killAfter` so many messages, whatever it does then. */
function start(
  task: TrainTask | ExportTask | PreviewTask,
  answer: (request: Scores) => ToTrainer | null = LENGTHS,
  killAfter = Number.POSITIVE_INFINITY,
) {
  const said: FromTrainer[] = [];
  const worker = supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: grantsOf(task),
    onMessage: (message) => {
      if (said.push(message) === killAfter) return void process.kill(worker.pid, "SIGKILL");
      const scored = message.type === "score" ? answer(message) : null;
      if (scored) worker.send(scored);
    },
  });
  void worker.ready.then(() => worker.send(task));
  const of = <T extends FromTrainer["type"]>(type: T) => said.filter((each): each is Message<T> => each.type === type);
  return { worker, said, of };
}

let runs = 0;
const folder = (name: string) => {
  mkdirSync(join(dir, name));
  return join(dir, name);
};
const training = (plan: TrainPlan, more: object = {}): TrainTask => ({
  type: "train",
  ...machine,
  plan,
  checkpoint_dir: folder(`run-${runs++}`),
  save_steps: 0,
  save_seconds: 0,
  resume: null,
  warm_start: null,
  samples_per_step: 2,
  ranks: 1,
  rank: 0,
  ...more,
});

let trained: string; // a checkpoint that later tests make files of

test("a training reports each step, gets its completions scored, and ends", async () => {
  const plan = await planOf({ ...common, method: "grpo", rows: PROMPTS, given: { ...GRPO, max_steps: 3 } });
  const { worker, said, of } = start(training(plan));
  await worker.ready;
  expect(seenOf(worker.pid)).toMatchObject(CONFINED); // M6
  expect(await worker.exited).toMatchObject({ kind: "done", code: 0 });
  expect(of("begun")).toMatchObject([{ step: 0, total_steps: 3, device: "CPU" }]);
  expect(of("step").map(({ step, values }) => [step, values["reward_latency_p95"]])).toEqual([
    [1, 0.003],
    [2, 0.003],
    [3, 0.003],
  ]);
  expect(of("score")[0]!.samples[0]).toEqual({
    prompt: expect.any(String),
    completion: expect.any(String),
    row: expect.stringContaining('{"prompt":"'),
  });
  expect(said.filter(({ type }) => type === "trained" || type === "done").map(({ type }) => type)).toEqual([
    "trained",
    "done",
  ]);
  trained = of("checkpoint")[0]!.path;
  expect(existsSync(join(trained, "adapter.gguf"))).toBe(true);
}, 120_000);

test("on a request to save and end while it waits for scores, the trainer finishes the step first", async () => {
  const plan = await planOf({ ...common, method: "grpo", rows: PROMPTS, given: { ...GRPO, max_steps: 50 } });
  const { worker, of } = start(training(plan), (asked) => {
    if (asked.step === 2) worker.send({ type: "save_and_end" });
    return LENGTHS(asked);
  });
  expect(await worker.exited).toMatchObject({ kind: "done" });
  expect([of("saved").length, of("checkpoint").map(({ step }) => step)]).toEqual([1, [3]]);
}, 120_000);

test("a trainer that is stopped while it waits ends at once and leaves no incomplete checkpoint", async () => {
  const plan = await planOf({ ...common, method: "grpo", rows: PROMPTS, given: { ...GRPO, max_steps: 50 } });
  const { worker, of } = start(training(plan), () => null);
  await until("the question for scores", () => of("score").length > 0, 30_000);
  expect(await worker.stop("cancelled")).toMatchObject({ forced: false });
  expect(of("step")).toEqual([]);
}, 120_000);

test("a trainer that is killed repeatedly reports the same as an uninterrupted run", async () => {
  const given = { ...GRPO, max_steps: 12, steps_per_generation: 2, gradient_accumulation_steps: 1, num_iterations: 2 };
  const plan = await planOf({ ...common, method: "grpo", rows: PROMPTS, given });
  const whole = start(training(plan, { save_steps: 3 }));
  await whole.worker.exited;
  const chance = openRandom(5);
  const checkpoint_dir = folder(`run-${runs++}`);
  let told: Message<"step">[] = [];
  let resume: string | null = null;
  let kills = 0;
  for (let over = false; !over; ) {
    const killAfter = kills < 8 ? 5 + Math.floor(25 * chance()) : Number.POSITIVE_INFINITY;
    const { worker, of } = start(training(plan, { save_steps: 3, checkpoint_dir, resume }), LENGTHS, killAfter);
    await worker.exited;
    over = of("trained").length > 0;
    kills++;
    const newest = of("checkpoint").at(-1);
    const begun = of("begun")[0];
    if (begun) told = [...told.filter(({ step }) => step <= begun.step), ...of("step")];
    if (newest) resume = newest.path;
  }
  expect(kills).toBeGreaterThan(2);
  expect(stream(told)).toEqual(stream(whole.of("step")));
}, 120_000);

test("a reward that cannot run is an error of the reward; useless rows are an error of the data", async () => {
  const plan = await planOf({ ...common, method: "grpo", rows: PROMPTS, given: { ...GRPO, max_steps: 2 } });
  const one = start(training(plan), ({ id }) => ({ type: "unscored", id, message: "reward.py does not parse" }));
  expect(await one.worker.exited).toMatchObject({ kind: "reward", message: expect.stringContaining("does not parse") });
  expect(one.of("trouble")).toMatchObject([{ kind: "bad_reward", message: "reward.py does not parse" }]);
  const long = await planOf({ ...common, method: "grpo", rows: [{ prompt: "x".repeat(300) }], given: GRPO });
  const other = start(training(long));
  expect(await other.worker.exited).toMatchObject({ kind: "data" });
  expect(other.of("trouble")).toMatchObject([{ kind: "bad_rows", param: "dataset" }]);
}, 120_000);

test("a preview samples, scores and measures, and leaves nothing", async () => {
  const plan = await planOf({ ...common, method: "grpo", rows: PROMPTS, given: GRPO });
  const { worker, of } = start({ type: "preview", ...machine, plan, prompts: 3 });
  expect(await worker.exited).toMatchObject({ kind: "done" });
  const [seen] = of("previewed");
  expect(seen!.samples).toHaveLength(12);
  expect(seen!.samples[0]).toMatchObject({ prompt: "a", reward: expect.any(Number), advantage: null });
  expect(seen!.step_ms!).toBeGreaterThan(0);
  expect(seen!.memory_bytes).toBeGreaterThan(0);
  const rows = PROMPTS.map(({ prompt }) => ({ prompt, completion: "yes" }));
  const sft = start({
    type: "preview",
    ...machine,
    plan: await planOf({ ...common, method: "sft", rows }),
    prompts: 3,
  });
  expect(await sft.worker.exited).toMatchObject({ kind: "done" });
  expect(sft.of("previewed")).toMatchObject([{ samples: [], step_ms: expect.any(Number) }]);
}, 120_000);

test("files of a checkpoint: adapter, whole models, PEFT and a Hugging Face folder", async () => {
  const exporting = { ...machine, model_path: model, base_model: "a/b", checkpoint: trained };
  const lora = (await planOf({ ...common, method: "sft", rows: [{ prompt: "a", completion: "b" }] })).lora;
  const make = async (variant: Extract<ToTrainer, { type: "export" }>["variant"], quantization: string) => {
    mkdirSync(join(dir, "out"), { recursive: true });
    const out = join(dir, "out", `${variant}-${quantization}`);
    const { worker, of } = start({ type: "export", ...exporting, lora, variant, quantization, out });
    const exit = await worker.exited;
    expect(exit.kind).toBe("done");
    expect(of("exported")).toEqual([
      { type: "exported", path: out, size_bytes: Bun.file(out).size, sha256: await sha256File(out) },
    ]);
    return out;
  };
  const tokens = Int32Array.from({ length: 16 }, (_, i) => 60 + i);
  const adapter = await make("adapter", "");
  const want = logitsOf(model, tokens, adapter);
  expect(relativeError(logitsOf(model, tokens), want)).toBeGreaterThan(1e-3);
  expect(relativeError(logitsOf(await make("merged", "F32"), tokens), want)).toBeLessThan(1e-3);
  expect(relativeError(logitsOf(await make("merged", ""), tokens), want)).toBeLessThan(1e-2);
  expect(relativeError(logitsOf(await make("gguf", "Q8_0"), tokens), want)).toBeLessThan(0.05);
  const tar = readFileSync(await make("peft", ""));
  const reader = createTarReader(createLedger(tar.byteLength));
  reader.push(tar);
  expect(reader.end()).toMatchObject({ fileCount: 2 });
  expect(tar.toString("latin1")).toContain('"base_model_name_or_path": "a/b"');
  const folder = readFileSync(await make("huggingface", ""));
  const files = createTarReader(createLedger(folder.byteLength));
  files.push(folder);
  expect(files.end()).toMatchObject({ fileCount: 5 });
  expect(folder.toString("latin1")).toContain('"torch_dtype": "bfloat16"');
}, 120_000);

test("an unknown quantization is refused with the list of known ones", async () => {
  const lora = (await planOf({ ...common, method: "sft", rows: [{ prompt: "a", completion: "b" }] })).lora;
  const { worker } = start({
    type: "export",
    ...machine,
    model_path: model,
    base_model: null,
    checkpoint: trained,
    lora,
    variant: "gguf",
    quantization: "Q3_X",
    out: join(dir, "never"),
  } as ExportTask);
  expect(await worker.exited).toMatchObject({ kind: "config", message: expect.stringContaining("Q4_K_M") });
}, 120_000);
