/** One run of a job: a lease of memory, a trainer, and what it tells. Its end is dealt with before it is forgotten. */
import type { Ctx } from "../../../context.ts";
import { outOfMemoryKills } from "../../../platform/machine/hardware.ts";
import type { Exit, Worker } from "../../../platform/workers/types.ts";
import { makeDir } from "../../../sandbox/files/trees.ts";
import { FromTrainer, type ToTrainer, type TrainTask } from "../../../workers/protocol_trainer.ts";
import * as gpu from "../../gpu/service.ts";
import { type JobLog, openLog } from "../logs/file.ts";
import { type RunEnd, UNTOLD } from "../policy.ts";
import { grantsOf, holdFiles } from "../state/grants.ts";
import { liveOf, type Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import { placesOf } from "../state/paths.ts";
import * as progress from "../state/progress.ts";
import type { JobRow } from "../table.ts";
import { finish } from "./results.ts";
import { type Scoring, scoringFor } from "./scoring.ts";

export type Start = { job: JobRow; task: TrainTask; cards: readonly string[] };

/** `kills`: of the kernel for want of memory, before it began. */
type Running = { id: string; log: JobLog; scoring: Scoring; end: RunEnd; kills: number };

/** Throws when the operating system refuses a process; then nothing was begun. */
export function start(ctx: Ctx, { job, task, cards }: Start) {
  const { runs } = liveOf(ctx.db);
  const over = Promise.withResolvers<void>();
  const running: Running = {
    id: job.id,
    log: openLog(ctx, job.id),
    scoring: scoringFor(ctx, job),
    end: { ...UNTOLD },
    kills: outOfMemoryKills(),
  };
  makeDir(placesOf(ctx, job.id).checkpoints); // the trainer is granted this folder, so it must exist
  const release = holdFiles(ctx, task);
  const worker = spawn(ctx, { running, task, cards, release }, () => {
    release();
    runs.delete(job.id);
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
  runs.set(job.id, run);
  if (job.method === "grpo") running.scoring.begin();
  worker.ready.then(
    () => worker.send(task),
    () => {}, // its end is told by onExit
  );
}

type Spawned = { running: Running; task: TrainTask; cards: readonly string[]; release: () => void };

function spawn(ctx: Ctx, { running, task, cards, release }: Spawned, forget: () => void) {
  try {
    const worker: Worker<FromTrainer, ToTrainer> = ctx.supervisor.spawn<FromTrainer, ToTrainer>({
      kind: "trainer",
      incoming: FromTrainer,
      grants: grantsOf(task),
      extraEnv: { CUDA_VISIBLE_DEVICES: cards.join() },
      onMessage: (message) => hear(ctx, running, message, (answer) => worker.send(answer)),
      onExit: (exit) => bury(ctx, running, exit).finally(forget),
    });
    return worker;
  } catch (error) {
    running.log.close();
    release();
    throw error;
  }
}

type Send = (answer: ToTrainer) => unknown;

function hear(ctx: Ctx, { id, log, scoring, end }: Running, message: FromTrainer, send: Send) {
  switch (message.type) {
    case "begun":
      gpu.correct(ctx, id, message.memory_bytes);
      moves.begin(ctx, id, {
        device: message.device,
        memoryBytes: message.memory_bytes,
        totalSteps: message.total_steps,
      });
      return;
    case "score":
      return scoring.answer(message).then((answer) => answer && send(answer));
    case "step":
      end.steps++;
      return progress.step(ctx, id, message);
    case "checkpoint":
      return progress.checkpoint(ctx, id, message);
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
      return;
    default:
      return; // loading; what the supervisor keeps to itself
  }
}

const FRAME = /^\s+at .+:\d+:\d+\)?$/; // of our own stack

/** Where files lie, and how we are built, is no caller's business. */
const cleaned = (ctx: Ctx, tail: string) =>
  tail
    .replaceAll(`${ctx.config.data_dir}/`, "")
    .split("\n")
    .filter((line) => !FRAME.test(line))
    .join("\n");

async function bury(ctx: Ctx, { id, log, scoring, end, kills }: Running, exit: Exit) {
  await scoring.close();
  end.killed = exit.kind === "crashed" && exit.signal === "SIGKILL" && !exit.forced;
  end.kind = end.killed && outOfMemoryKills() > kills ? "memory" : exit.kind;
  end.message = exit.message;
  end.tail = cleaned(ctx, exit.tail);
  if (end.tail.trim() !== "") log.add("stderr", end.tail.trim());
  log.close();
  gpu.release(ctx, id);
  if (ctx.closing.aborted) return void moves.suspend(ctx, id);
  if (moves.conclude(ctx, id, end) === "complete") await finishOr(ctx, id, end);
}

/** All steps are done; where the result cannot be kept it counts as a crash, and is tried again. */
export async function finishOr(ctx: Ctx, id: string, end: RunEnd) {
  try {
    await finish(ctx, id);
  } catch (error) {
    ctx.log.error("the result of a job could not be kept", { job: id, error });
    const message = `Its result could not be kept: ${error instanceof Error ? error.message : String(error)}`;
    moves.conclude(ctx, id, { ...UNTOLD, message, tail: end.tail });
  }
}
