/** The one door for what a run reports and for its end, wherever the run is. A message that comes twice changes nothing. */

import type { Ctx } from "../../../../context.ts";
import { errorText } from "../../../../lib/error_text.ts";
import type { FromTrainer } from "../../../../workers/protocol_trainer.ts";
import type { JobLog } from "../logs/file.ts";
import { type RunEnd, UNREPORTED_END } from "../policy.ts";
import { alignCheckpoints } from "../state/checkpoint_files.ts";
import * as moves from "../state/moves.ts";
import * as progress from "../state/progress.ts";
import { currentJob } from "../state/rows.ts";
import { finish } from "./results.ts";

/** `end`: what is known of the end so far. */
export type Reporting = { id: string; log: JobLog; end: RunEnd };

/** Scores are answered where the run is, and never come here. */
export function takeMessage(ctx: Ctx, { id, log, end }: Reporting, message: FromTrainer): void | Promise<void> {
  switch (message.type) {
    case "begun":
      moves.markRunning(ctx, id, {
        device: message.device,
        memoryBytes: message.memory_bytes,
        totalSteps: message.total_steps,
      });
      return;
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

/** Callers see neither the paths of the machine nor Verk's own stack frames. `dir`: where the run has its files. */
export const withoutInternals = (tail: string, dir: string) =>
  tail
    .replaceAll(`${dir}/`, "")
    .split("\n")
    .filter((line) => !STACK_FRAME.test(line))
    .join("\n");

/** Messages of these runs may be lost. */
const BROKEN_OFF = ["crashed", "silent", "lied"];

/** Applies the end to the job's row. `conclude`: decides and writes, if the caller has more to write in that commit. */
export async function takeEnd(ctx: Ctx, id: string, end: RunEnd, conclude = () => moves.conclude(ctx, id, end)) {
  if (end.killed || BROKEN_OFF.includes(end.kind)) await recoverReports(ctx, id);
  if (conclude() === "complete") await finishOrRetry(ctx, id, end);
}

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
    const message = `The result could not be stored: ${errorText(error)}`;
    moves.conclude(ctx, id, { ...UNREPORTED_END, message, tail: end.tail });
  }
}
