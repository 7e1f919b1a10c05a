/**
 * A trainer without a model, for tests. The script file holds a list of lives, one for each start; the last applies to
 * all further starts. Every start adds a line to `<script>.starts`. Its reports depend only on the job's seed and the
 * step, like those of the real trainer.
 */
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Host, runHosted } from "../../src/workers/host.ts";
import { WorkerError } from "../../src/workers/protocol.ts";
import {
  type ExportFolderTask,
  type ExportTask,
  type FromTrainer,
  type InspectTask,
  type PreviewTask,
  type TemplateTask,
  ToTrainer,
  type TROUBLES,
  type TrainSample,
  type TrainTask,
} from "../../src/workers/protocol_trainer.ts";
import { createJournal, type Journal } from "../../src/workers/trainer/loop/journal.ts";

export type TrainerLife = {
  /** Load only when this file exists. */
  gate?: string;
  /** This step waits until this file exists. */
  wait?: { step: number; gate: string };
  stepMs?: number;
  /**
   * Aborts before the step is reported, like a native assertion. Or is killed after its checkpoint exists, but before
   * it is reported.
   */
  crashAt?: number;
  crashUntold?: number;
  /** Steps and checkpoints from this step on are not reported, as if the messages were lost. */
  muteFrom?: number;
  hangAt?: number;
  lieAt?: number;
  trouble?: (typeof TROUBLES)[number];
  fail?: "config" | "data";
  /** This many completions of each step are scored. */
  score?: number;
  /** Log line of each step. */
  says?: string;
  alarmAt?: number;
  /** Ignores the request to save. */
  deaf?: true;
  /** Held-out loss by step: the distance to this step. */
  bestAt?: number;
  /** Stops early after this step. */
  stopsAt?: number;
  /** The result; default: an invalid file. */
  adapter?: string;
};

type TrainerHost = Host<ToTrainer, FromTrainer>;
type Scored = Extract<ToTrainer, { type: "scored" | "unscored" }>;
type Session = {
  host: TrainerHost;
  life: TrainerLife;
  answers: Map<number, (answer: Scored) => void>;
  saving: boolean;
  /** Since the last checkpoint. */
  journal: Journal;
};

export const runFakeTrainer = (script: string) =>
  runHosted<ToTrainer, FromTrainer>(ToTrainer, async (host) => {
    const session: Session = { host, life: begin(script), answers: new Map(), saving: false, journal: createJournal() };
    const finished = Promise.withResolvers<void>();
    void (async () => {
      for await (const message of host.messages) {
        if (message.type === "scored" || message.type === "unscored") session.answers.get(message.id)?.(message);
        else if (message.type === "save_and_end") session.saving = true;
        else if (message.type !== "acted") work(session, message).then(finished.resolve, finished.reject);
      }
      finished.resolve(); // stopping
    })();
    await finished.promise;
  });

const NOTHING_INSPECTED: FromTrainer = {
  type: "inspected",
  rows: [],
  statistics: {
    rows: 0,
    measured_rows: 0,
    unreadable_rows: 0,
    tokens: { p50: 0, p95: 0, max: 0, total: 0 },
    over_max_length: 0,
    unlearned_rows: 0,
    duplicates: { exact: 0, prompt: 0 },
  },
};

function begin(script: string): TrainerLife {
  appendFileSync(`${script}.starts`, `${process.pid}\n`);
  const starts = readFileSync(`${script}.starts`, "utf8").trim().split("\n").length;
  const lives = JSON.parse(readFileSync(script, "utf8")) as TrainerLife[];
  return lives[Math.min(starts, lives.length) - 1] ?? {};
}

type Task = TrainTask | PreviewTask | ExportTask | ExportFolderTask | TemplateTask | InspectTask;

async function work(session: Session, task: Task) {
  await opened(session, session.life.gate);
  if (session.saving) return session.host.send({ type: "saved" });
  const { fail } = session.life;
  if (fail) throw new WorkerError(fail, `asked to fail: ${fail}`);
  if (task.type === "train") return await train(session, task);
  if (task.type === "export") return exported(session, task);
  if (task.type === "export_folder") return;
  if (task.type === "template") {
    const results = task.conversations.map(() => ({ text: "fake", tokens: 1, error: null }));
    return session.host.send({ type: "rendered", results });
  }
  if (task.type === "inspect_rows") return session.host.send(NOTHING_INSPECTED);
  const samples = await scored(session, task, 0, Math.max(1, task.prompts));
  session.host.send({ type: "previewed", memory_bytes: 1_000_000, step_ms: 12, samples, latencies_ms: [1] });
}

async function opened(session: Session, gate: string | undefined) {
  const isOver = () => session.saving || session.host.stopping.aborted;
  while (gate !== undefined && !existsSync(gate) && !isOver()) await Bun.sleep(2);
}

async function train(session: Session, task: TrainTask) {
  const { host, life } = session;
  const { total_steps: total } = task.plan;
  let step = task.resume === null ? 0 : stateOf(task.resume).step;
  host.send({ type: "begun", step, total_steps: total, device: "fake", memory_bytes: 1_000_000 });
  while (step < total && step !== life.stopsAt && !host.stopping.aborted) {
    step++;
    await oneStep(session, task, step);
    const isDue = task.save_steps > 0 && step % task.save_steps === 0;
    const ends = session.saving && !life.deaf;
    const stops = step === life.stopsAt;
    if (isDue || ends || stops || step === total) save(session, task, step);
    if (stops) break;
    if (ends && step < total) return host.send({ type: "saved" });
  }
  const stopped_early = step === life.stopsAt ? "eval_loss did not improve" : null;
  if (!host.stopping.aborted) host.send({ type: "trained", stopped_early });
}

async function oneStep(session: Session, task: TrainTask, step: number) {
  const { host, life } = session;
  await opened(session, life.wait?.step === step ? life.wait.gate : undefined);
  if (life.stepMs) await Bun.sleep(life.stepMs);
  if (life.crashAt === step) process.kill(process.pid, "SIGABRT");
  if (life.hangAt === step) for (;;);
  if (life.lieAt === step) host.send({ type: "step", step: "one" } as unknown as FromTrainer);
  const { trouble } = life;
  if (trouble) {
    const sample = trouble === "bad_reward" ? { ...SAMPLE, completion: "a bad one", error: "boom" } : null;
    host.send({ type: "trouble", kind: trouble, message: `asked for ${trouble}`, param: null, sample });
    throw new WorkerError(trouble === "lacking_memory" ? "memory" : "data", trouble);
  }
  const samples = await scored(session, task, step, life.score ?? 0);
  const alarms = life.alarmAt === step ? [{ type: "kl_blow_up", message: "kl is high" }] : [];
  host.send({ type: "log", stream: "stdout", line: life.says ?? `step ${step}/${task.plan.total_steps}` });
  const eta_ms = (task.plan.total_steps - step) * 10;
  const report = { step, epoch: step / 10, values: valuesAt(task.plan.seed, step, life), samples, alarms };
  session.journal.add({ time: Date.now(), ...report });
  if (!isMute(life, step)) host.send({ type: "step", ...report, eta_ms });
}

const isMute = ({ muteFrom }: TrainerLife, step: number) => muteFrom !== undefined && step >= muteFrom;

/** Only `step_time` varies between runs. */
const valuesAt = (seed: number, step: number, { bestAt }: TrainerLife): Record<string, number> => ({
  ...(bestAt === undefined ? {} : { eval_loss: Math.abs(step - bestAt) }),
  loss: Math.sin(seed * 1000 + step) + 2,
  reward: Math.cos(seed * 1000 + step),
  "rewards/margins": step,
  step_time: performance.now(),
});

const SAMPLE: TrainSample = {
  prompt: "p",
  completion: "c",
  reward: null,
  sub_rewards: {},
  advantage: 0,
  tokens: 1,
  truncated: false,
  error: null,
};

async function scored({ host, answers }: Session, _task: object, step: number, count: number): Promise<TrainSample[]> {
  if (count === 0) return [];
  const samples = Array.from({ length: count }, (_, i) => ({
    prompt: `prompt ${i}`,
    completion: `answer ${step}.${i}`,
    row: JSON.stringify({ prompt: `prompt ${i}`, answer: String(i) }),
  }));
  const answered = Promise.withResolvers<Scored>();
  answers.set(step, answered.resolve);
  host.send({ type: "score", id: step, step, samples });
  const answer = await answered.promise;
  if (answer.type === "unscored") {
    host.send({ type: "trouble", kind: "bad_reward", message: answer.message, param: null, sample: null });
    throw new WorkerError("reward", answer.message);
  }
  return samples.map(({ prompt, completion }, i) => {
    const { weights: _, ...scored } = answer.results[i] ?? {};
    return { ...SAMPLE, prompt, completion, ...scored };
  });
}

const stateOf = (dir: string) => JSON.parse(readFileSync(join(dir, "state.json"), "utf8")) as { step: number };

function save({ host, life, journal }: Session, task: TrainTask, step: number) {
  const path = join(task.checkpoint_dir, `step-${String(step).padStart(6, "0")}`);
  if (!existsSync(path)) {
    const temp = join(task.checkpoint_dir, `.verk-tmp-${process.pid}-${step}`);
    mkdirSync(temp, { recursive: true });
    const result = join(temp, task.plan.lora ? "adapter.gguf" : "model.gguf");
    if (life.adapter === undefined) writeFileSync(result, "no model");
    else copyFileSync(life.adapter, result);
    writeFileSync(join(temp, "state.json"), JSON.stringify({ version: 1, step, seed: task.plan.seed }));
    writeFileSync(join(temp, "steps.ndjson"), journal.text());
    renameSync(temp, path);
  }
  journal.clear();
  if (life.crashUntold === step) process.kill(process.pid, "SIGKILL");
  if (isMute(life, step)) return;
  host.send({ type: "checkpoint", step, path, size_bytes: 100, metrics: valuesAt(task.plan.seed, step, life) });
}

function exported({ host, life }: Session, task: ExportTask) {
  const text = `${task.variant} ${task.quantization} of ${task.checkpoint.split("/").at(-1)}`;
  if (life.adapter !== undefined && task.variant !== "peft" && task.variant !== "huggingface")
    copyFileSync(life.adapter, task.out);
  else writeFileSync(task.out, text);
  host.send({ type: "exported", path: task.out, size_bytes: text.length, sha256: "" });
}
