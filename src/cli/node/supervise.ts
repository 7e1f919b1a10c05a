/**
 * `verk node run`: the supervisor of one run. It starts the trainer, scores for it in the sandbox of this node, and
 * appends what the trainer reports to records.ndjson. It takes requests as files, because its server may be away.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { withWorkers } from "../../app.ts";
import { SECOND_MS } from "../../lib/units.ts";
import { VERSION } from "../../lib/version.ts";
import { type Config, loadConfig } from "../../platform/config/config.ts";
import { acquireDataLock } from "../../platform/db/data_lock.ts";
import { listGpus, outOfMemoryKills } from "../../platform/machine/hardware.ts";
import {
  attemptDir,
  checkpointsDir,
  type Handle,
  jobDir,
  type NodeExit,
  NodePlan,
} from "../../platform/providers/protocol.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import type { Exit, Worker } from "../../platform/workers/types.ts";
import { createRewardPool } from "../../sandbox/reward/pool.ts";
import { FromTrainer, ToTrainer, type TrainTask } from "../../workers/protocol_trainer.ts";
import { openScoring, type Scoring } from "./scoring.ts";

const BEAT_MS = SECOND_MS / 4;

export async function supervise(rootPath: string, handle: Handle): Promise<undefined> {
  const root = resolve(rootPath);
  const dir = join(root, attemptDir(handle));
  const lock = acquireDataLock(join(root, jobDir(handle.job)), { version: VERSION });
  try {
    if (existsSync(join(dir, "started"))) return undefined; // another supervisor had this attempt
    writeFileSync(join(dir, "started"), `${process.pid}\n`, { mode: 0o600 });
    const records = openRecords(dir);
    const exit = await runOnce(root, dir, handle, records).catch((error: unknown) => failed(error));
    records.add({ exit });
    records.close();
    writeFileSync(join(dir, "ended"), "", { mode: 0o600 });
    return undefined;
  } finally {
    lock.release();
  }
}

const failed = (error: unknown): NodeExit => ({
  kind: "crashed",
  message: error instanceof Error ? error.message : String(error),
  tail: "",
  killed: false,
});

type Records = { add: (record: object) => void; close: () => void };

/** Only this process appends. The end is flushed before `ended` says that it is there. */
function openRecords(dir: string): Records {
  const fd = openSync(join(dir, "records.ndjson"), "a", 0o600);
  return {
    add(record) {
      const bytes = Buffer.from(`${JSON.stringify({ time: Date.now(), ...record })}\n`);
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    },
    close() {
      fsyncSync(fd);
      closeSync(fd);
    },
  };
}

async function runOnce(root: string, dir: string, handle: Handle, records: Records): Promise<NodeExit> {
  const plan = NodePlan.parse(JSON.parse(readFileSync(join(dir, "plan.json"), "utf8")));
  const data = join(root, "data");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  mkdirSync(join(root, checkpointsDir(handle.job)), { recursive: true, mode: 0o700 });
  const config = loadConfig({ env: { HOME: root }, flags: { ...plan.settings, data_dir: data } });
  const task = await taskOf(root, plan, config);
  const scoring = openScoring(createRewardPool({ settings: config.sandbox, dataDir: data }), plan);
  try {
    return await withWorkers(config, (supervisor) => train(supervisor, { dir, task, plan, records, scoring }));
  } finally {
    await scoring.close();
  }
}

/** Paths below the work directory become absolute; devices are those of this node. */
async function taskOf(root: string, plan: NodePlan, config: Config): Promise<TrainTask> {
  const gpus = plan.gpus === 0 ? [] : (await listGpus()).slice(0, plan.gpus);
  if (gpus.length < plan.gpus) throw new Error(`this node shows ${gpus.length} GPUs, and the job needs ${plan.gpus}`);
  const threads = Math.max(1, Math.floor((availableParallelism() - 1) / Math.max(1, plan.gpus)));
  const device = { data_dir: config.data_dir, threads, gpus: gpus.map((_, i) => i) };
  const task = ToTrainer.parse({ ...plan.task, ...device });
  if (task.type !== "train") throw new Error("the plan is no training");
  const at = <T extends string | null>(path: T) => (path === null ? path : join(root, path)) as T;
  const rows = (spec: TrainTask["plan"]["rows"]) => ({ ...spec, path: at(spec.path) });
  const { start_adapter: start, eval_rows: held } = task.plan;
  return {
    ...task,
    checkpoint_dir: at(task.checkpoint_dir),
    resume: at(task.resume),
    warm_start: at(task.warm_start),
    plan: {
      ...task.plan,
      model_path: at(task.plan.model_path),
      rows: rows(task.plan.rows),
      eval_rows: held && rows(held),
      ...(start === undefined ? {} : { start_adapter: at(start) }),
    },
  };
}

type Run = { dir: string; task: TrainTask; plan: NodePlan; records: Records; scoring: Scoring };

async function train(supervisor: Supervisor, { dir, task, records, scoring }: Run): Promise<NodeExit> {
  const kills = outOfMemoryKills();
  const { rows, eval_rows, model_path, start_adapter } = task.plan;
  const files = [model_path, rows.path, eval_rows?.path, start_adapter, task.resume, task.warm_start];
  const worker: Worker<FromTrainer, ToTrainer> = supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: {
      gpu: task.gpus.length > 0,
      reads: files.filter((path) => typeof path === "string"),
      writes: [task.checkpoint_dir],
    },
    onMessage(message) {
      if (message.type !== "score") return records.add({ message });
      return scoring.answer(message).then((answer) => answer && worker.send(answer));
    },
  });
  const requests = { save: false, stop: false };
  const onSignal = () => void worker.send({ type: "save_and_end" }); // a scheduler takes the node back
  process.on("SIGTERM", onSignal);
  const beat = setInterval(() => {
    touch(join(dir, "heartbeat"));
    if (!requests.stop && existsSync(join(dir, "stop"))) {
      requests.stop = true;
      void worker.stop("cancelled");
    } else if (!requests.save && existsSync(join(dir, "save"))) {
      requests.save = true;
      worker.send({ type: "save_and_end" });
    }
  }, BEAT_MS);
  worker.ready.then(
    () => worker.send(task),
    () => {}, // `exited` has the reason
  );
  try {
    return asExit(await worker.exited, kills);
  } finally {
    clearInterval(beat);
    process.off("SIGTERM", onSignal);
  }
}

function asExit({ kind, message, tail, signal, forced }: Exit, kills: number): NodeExit {
  const killed = kind === "crashed" && signal === "SIGKILL" && !forced;
  return { kind: killed && outOfMemoryKills() > kills ? "memory" : kind, message, tail, killed };
}

function touch(path: string) {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    writeFileSync(path, "", { mode: 0o600 });
  }
}
