/**
 * `verk node run`: the supervisor of one run. It starts the trainer, scores for it in the sandbox of this node, and
 * appends what the trainer reports to records.ndjson. It takes requests as files, because its server may be away.
 */

import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { withWorkers } from "../../app.ts";
import { errorText } from "../../lib/error_text.ts";
import { VERSION } from "../../lib/version.ts";
import { loadConfig } from "../../platform/config/config.ts";
import { acquireDataLock } from "../../platform/db/data_lock.ts";
import { outOfMemoryKills } from "../../platform/machine/hardware.ts";
import {
  attemptDir,
  checkpointsDir,
  type Handle,
  jobDir,
  type NodeExit,
  NodePlan,
  TIME_LIMIT,
} from "../../platform/providers/protocol.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import type { Worker } from "../../platform/workers/types.ts";
import { createRewardPool } from "../../sandbox/reward/pool.ts";
import type { FromTrainer, ToTrainer, TrainTask } from "../../workers/protocol_trainer.ts";
import { runCustom } from "./custom.ts";
import { type Others, startOthers } from "./ranks.ts";
import { openRecords, type Records } from "./records.ts";
import { watchRequests } from "./requests.ts";
import { isRestart, isScheduled, nodeCount } from "./scheduler.ts";
import { openScoring, type Scoring } from "./scoring.ts";
import { asExit, newestCheckpoint, taskOf, trainerOptions } from "./tasks.ts";

export async function supervise(rootPath: string, handle: Handle): Promise<undefined> {
  const root = resolve(rootPath);
  const dir = join(root, attemptDir(handle));
  const lock = acquireDataLock(join(root, jobDir(handle.job)), { version: VERSION });
  try {
    const isTaken = existsSync(join(dir, "started")) && !isRestart(); // another supervisor had this attempt
    if (isTaken || existsSync(join(dir, "ended"))) return undefined;
    writeFileSync(join(dir, "started"), `${process.pid}\n`, { mode: 0o600 });
    const records = openRecords(dir);
    const exit = existsSync(join(dir, "stop"))
      ? STOPPED // before it began: another attempt may have taken its place
      : await runOnce(root, dir, handle, records).catch((error: unknown) => failed(error));
    if (exit) {
      records.end(exit);
      truncateSync(join(dir, "plan.json")); // it is not read again, and the server may be away for long
    } else leave(records);
    return undefined;
  } finally {
    lock.release();
  }
}

const STOPPED: NodeExit = { kind: "stopped", message: "", tail: "", killed: false };

/** Slurm may start this attempt again: it has no end yet. */
function leave(records: Records) {
  const line =
    "Slurm takes the node back. If it puts the job back into its queue, the run resumes from the newest checkpoint";
  records.add({ message: { type: "log", stream: "stdout", line } satisfies FromTrainer });
  records.close();
  process.exitCode = 1;
}

function failed(error: unknown): NodeExit {
  const isFull = error instanceof Error && "code" in error && error.code === "ENOSPC";
  const message = errorText(error);
  return {
    kind: "crashed",
    message: isFull ? `The work directory of the node is full: ${message}` : message,
    tail: "",
    killed: false,
  };
}

/** Undefined if a scheduler takes the node back before the end. */
async function runOnce(root: string, dir: string, handle: Handle, records: Records): Promise<NodeExit | undefined> {
  const plan = NodePlan.parse(JSON.parse(readFileSync(join(dir, "plan.json"), "utf8")));
  const data = join(root, "data");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  mkdirSync(join(root, checkpointsDir(handle.job)), { recursive: true, mode: 0o700 });
  const config = loadConfig({ env: { HOME: root }, flags: { ...plan.settings, data_dir: data } });
  const { custom } = plan;
  if (custom)
    return await withWorkers(config, (supervisor) =>
      runCustom({ root, dir, plan, custom, config, supervisor, records }),
    );
  const nodes = nodeCount();
  const task = await taskOf(root, plan, config, nodes);
  if (isRestart()) task.resume = newestCheckpoint(task.checkpoint_dir) ?? task.resume;
  const scoring = openScoring(createRewardPool({ settings: config.sandbox, dataDir: data }), plan);
  try {
    return await withWorkers(config, async (supervisor) => {
      if (nodes === 1) return await train(supervisor, { dir, task, records, scoring, others: null });
      const others = await startOthers(supervisor, { root, dir, handle, plan, task, nodes });
      const firstTask = { ...task, streams: true, gpus: task.gpus.slice(0, 1) };
      return await train(supervisor, { dir, task: firstTask, records, scoring, others });
    });
  } finally {
    await scoring.close();
  }
}

type Run = { dir: string; task: TrainTask; records: Records; scoring: Scoring; others: Others | null };

async function train(
  supervisor: Supervisor,
  { dir, task, records, scoring, others }: Run,
): Promise<NodeExit | undefined> {
  const kills = outOfMemoryKills();
  const run = { steps: 0, isTrained: false, isTakenBack: false, isTimeUp: false };
  let fault: unknown;
  const worker: Worker<FromTrainer, ToTrainer> = supervisor.spawn<FromTrainer, ToTrainer>({
    ...trainerOptions(task),
    onMessage(message) {
      if (message.type === "score" || message.type === "act")
        return scoring.answer(message).then((answer) => answer && worker.send(answer));
      if (message.type === "step") run.steps++;
      if (message.type === "trained") run.isTrained = true;
      // The same signal may have ended reward code, and the run is not over.
      if (run.isTakenBack && ["saved", "trouble"].includes(message.type)) return;
      try {
        records.add({ message });
      } catch (error) {
        fault ??= error;
        void worker.stop("its records cannot be written");
      }
    },
  });
  const end = watchRequests(dir, {
    save: () => void worker.send({ type: "save_and_end" }),
    stop: () => void worker.stop("cancelled"),
    takeBack() {
      run.isTakenBack = isScheduled();
      worker.send({ type: "save_and_end" });
    },
    timeIsUp() {
      run.isTimeUp = true;
      worker.send({ type: "save_and_end" });
    },
  });
  others?.attach(worker.socketPath);
  others?.broken.then(() => worker.stop("the other nodes of the run ended"));
  worker.ready.then(
    () => worker.send(task),
    () => {}, // `exited` has the reason
  );
  try {
    const last = asExit(await worker.exited, kills);
    const exit = others ? await others.settle(last) : last;
    if (fault !== undefined) throw fault;
    if (run.isTrained) return exit;
    if (run.isTakenBack) return undefined;
    // Judged now: a step that was under way at the signal may have ended. Without one, a retry would only repeat it.
    return run.isTimeUp && run.steps === 0 ? { ...exit, ...OUT_OF_TIME } : exit;
  } finally {
    end();
  }
}

const OUT_OF_TIME = { kind: TIME_LIMIT, message: "The time limit of the Slurm job came before the first step" };
