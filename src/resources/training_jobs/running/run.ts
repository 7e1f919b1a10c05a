/** One run of a job: a trainer process and its messages. The row is updated before the run is forgotten. */
import type { Ctx } from "../../../context.ts";
import { isRolled } from "../../../lib/training/fields.ts";
import { outOfMemoryKills } from "../../../platform/machine/hardware.ts";
import type { Exit, Worker } from "../../../platform/workers/types.ts";
import { makeDir } from "../../../sandbox/files/trees.ts";
import { FromTrainer, type ToTrainer, type TrainTask } from "../../../workers/protocol_trainer.ts";
import * as gpu from "../../gpu/service.ts";
import { type JobLog, openLog } from "../logs/file.ts";
import { type RunEnd, UNREPORTED_END } from "../policy.ts";
import { alignCheckpoints } from "../state/checkpoint_files.ts";
import { grantsOf, holdFiles } from "../state/grants.ts";
import type { Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import { pathsOf } from "../state/paths.ts";
import * as progress from "../state/progress.ts";
import { currentJob } from "../state/rows.ts";
import type { JobRow } from "../table.ts";
import { finish } from "./results.ts";
import { type Scoring, scoringFor } from "./scoring.ts";

export type Start = { job: JobRow; task: TrainTask; cards: readonly string[] };

/** `kills`: how many processes the kernel had killed for lack of memory before this run. */
type Running = { id: string; log: JobLog; scoring: Scoring; end: RunEnd; kills: number };

/** Throws if the operating system refuses a process; then nothing has started. */
export function start(ctx: Ctx, { job, task, cards }: Start) {
  const live = ctx.state.trainingJobs;
  const over = Promise.withResolvers<void>();
  const running: Running = {
    id: job.id,
    log: openLog(ctx, job.id),
    scoring: scoringFor(ctx, job),
    end: { ...UNREPORTED_END },
    kills: outOfMemoryKills(),
  };
  makeDir(pathsOf(ctx, job.id).checkpoints); // the trainer is granted this folder, so it must exist
  const release = holdFiles(ctx, task);
  const worker = spawn(ctx, { running, task, cards, release }, () => {
    release();
    live.removeRun(job.id);
    over.resolve();
    ctx.wake("training_jobs.reconcile");
  });
  const run: Run = {
    jobId: job.id,
    workspaceId: job.workspaceId,
    endingAt: undefined,
    save: () => void worker.send({ type: "save_and_end" }),
    stop: (reason) => worker.stop(reason),
    over: over.promise,
  };
  live.addRun(run);
  if (isRolled(job.method)) running.scoring.begin();
  worker.ready.then(
    () => worker.send(task),
    () => {}, // onExit reports the end
  );
}

type Spawn = { running: Running; task: TrainTask; cards: readonly string[]; release: () => void };

function spawn(ctx: Ctx, { running, task, cards, release }: Spawn, onEnd: () => void) {
  try {
    const worker: Worker<FromTrainer, ToTrainer> = ctx.supervisor.spawn<FromTrainer, ToTrainer>({
      kind: "trainer",
      incoming: FromTrainer,
      grants: grantsOf(task),
      extraEnv: { CUDA_VISIBLE_DEVICES: cards.join() },
      onMessage: (message) => handleMessage(ctx, running, message, (answer) => worker.send(answer)),
      onExit: (exit) => handleExit(ctx, running, exit).finally(onEnd),
    });
    return worker;
  } catch (error) {
    running.log.close();
    release();
    throw error;
  }
}

type Send = (answer: ToTrainer) => unknown;

function handleMessage(ctx: Ctx, { id, log, scoring, end }: Running, message: FromTrainer, send: Send) {
  switch (message.type) {
    case "begun":
      gpu.correct(ctx, id, message.memory_bytes);
      moves.markRunning(ctx, id, {
        device: message.device,
        memoryBytes: message.memory_bytes,
        totalSteps: message.total_steps,
      });
      return;
    case "score":
      return scoring.answer(message).then((answer) => answer && send(answer));
    case "step":
      end.steps++;
      return progress.recordStep(ctx, id, message);
    case "checkpoint":
      return progress.recordCheckpoint(ctx, id, message);
    case "log":
      return log.add(message.stream, message.line);
    case "trouble":
      end.trouble = message;
      return;
    case "saved":
      end.saved = true;
      return;
    case "trained":
      end.trained = true;
      end.stoppedEarly = message.stopped_early;
      return;
    default:
      return; // `loading`, and messages that only the supervisor uses
  }
}

const STACK_FRAME = /^\s+at .+:\d+:\d+\)?$/;

/** Callers see neither the paths of this machine nor Verk's own stack frames. */
const withoutInternals = (ctx: Ctx, tail: string) =>
  tail
    .replaceAll(`${ctx.config.data_dir}/`, "")
    .split("\n")
    .filter((line) => !STACK_FRAME.test(line))
    .join("\n");

async function handleExit(ctx: Ctx, { id, log, scoring, end, kills }: Running, exit: Exit) {
  await scoring.close();
  end.killed = exit.kind === "crashed" && exit.signal === "SIGKILL" && !exit.forced;
  end.kind = end.killed && outOfMemoryKills() > kills ? "memory" : exit.kind;
  end.message = exit.message;
  end.tail = withoutInternals(ctx, exit.tail);
  if (end.tail.trim() !== "") log.add("stderr", end.tail.trim());
  log.close();
  gpu.release(ctx, id);
  if (ctx.closing.aborted) return void moves.suspend(ctx, id);
  if (BROKEN_OFF.includes(exit.kind)) await recoverReports(ctx, id);
  if (moves.conclude(ctx, id, end) === "complete") await finishOrRetry(ctx, id, end);
}

/** Messages of these runs may be lost. */
const BROKEN_OFF = ["crashed", "silent", "lied"];

/** Writes the steps that the run's checkpoints have and the rows lack. A job that fails for good keeps them too. */
async function recoverReports(ctx: Ctx, id: string) {
  const job = currentJob(ctx.db, id);
  if (!job || job.method === "custom") return;
  await alignCheckpoints(ctx, job).catch((error) => ctx.log.error("cannot read checkpoints", { job: id, error }));
}

/** No step follows. If the result cannot be stored, that counts as a crash, and the job is retried. */
export async function finishOrRetry(ctx: Ctx, id: string, end: RunEnd) {
  try {
    await finish(ctx, id, end.stoppedEarly);
  } catch (error) {
    ctx.log.error("cannot store the result of a job", { job: id, error });
    const message = `The result could not be stored: ${error instanceof Error ? error.message : String(error)}`;
    moves.conclude(ctx, id, { ...UNREPORTED_END, message, tail: end.tail });
  }
}
