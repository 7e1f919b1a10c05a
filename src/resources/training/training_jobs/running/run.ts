/** One run of a job: a trainer process and its messages. The row is updated before the run is forgotten. */
import type { Ctx } from "../../../../context.ts";
import { outOfMemoryKills } from "../../../../platform/machine/hardware.ts";
import type { Exit, Worker } from "../../../../platform/workers/types.ts";
import { makeDir } from "../../../../sandbox/files/trees.ts";
import { FromTrainer, type ToTrainer, type TrainTask } from "../../../../workers/protocol_trainer.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { type JobLog, openLog } from "../logs/file.ts";
import { hasRewards, type RunEnd, UNREPORTED_END } from "../policy.ts";
import { grantsOf, holdFiles } from "../state/grants.ts";
import type { Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import { pathsOf } from "../state/paths.ts";
import type { JobRow } from "../table.ts";
import { takeEnd, takeMessage, withoutInternals } from "./door.ts";
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
  if (hasRewards(job.rewards)) running.scoring.begin();
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

function handleMessage(ctx: Ctx, running: Running, message: FromTrainer, send: Send) {
  if (message.type === "score" || message.type === "act")
    return running.scoring.answer(message).then((answer) => answer && send(answer));
  if (message.type === "begun") gpu.correct(ctx, running.id, message.memory_bytes);
  return takeMessage(ctx, running, message);
}

async function handleExit(ctx: Ctx, { id, log, scoring, end, kills }: Running, exit: Exit) {
  await scoring.close();
  end.killed = exit.kind === "crashed" && exit.signal === "SIGKILL" && !exit.forced;
  end.kind = end.killed && outOfMemoryKills() > kills ? "memory" : exit.kind;
  end.message = exit.message;
  end.tail = withoutInternals(exit.tail, ctx.config.data_dir);
  if (end.tail.trim() !== "") log.add("stderr", end.tail.trim());
  log.close();
  gpu.release(ctx, id);
  if (ctx.closing.aborted) return void moves.suspend(ctx, id);
  await takeEnd(ctx, id, end);
}
