/** The files that a trainer needs for its task: it may reach no others. */

import { dirname } from "node:path";
import type { Ctx } from "../../../context.ts";
import type { Grants } from "../../../platform/workers/types.ts";
import type { ExportTask, PreviewTask, TrainPlan, TrainTask } from "../../../workers/protocol_trainer.ts";
import * as rowFiles from "../../datasets/stream/files.ts";

type Task = TrainTask | PreviewTask | ExportTask;

/** The folders in `writes` must exist before the worker starts. */
export function grantsOf(task: Task): Grants {
  const gpu = task.gpus.length > 0;
  if (task.type === "export")
    return { gpu, reads: [task.model_path, task.checkpoint], writes: [dirname(task.out)], updates: [] };
  const rows = rowsOf(task.plan);
  const from = task.type === "train" ? [task.resume, task.warm_start].filter((path) => path !== null) : [];
  return {
    gpu,
    reads: [task.plan.model_path, ...rows.flatMap((path) => [path, `${path}-wal`]), ...from],
    writes: task.type === "train" ? [task.checkpoint_dir] : [],
    updates: rows.map((path) => `${path}-shm`), // a reader of SQLite marks there how far it reads
  };
}

const rowsOf = ({ rows, eval_rows }: TrainPlan): string[] =>
  [rows, ...(eval_rows ? [eval_rows] : [])].map(({ path }) => path);

/**
 * Keeps the rows of a task open until the answer is called: while the server has them open, SQLite's two files beside
 * them exist, which the trainer is granted and cannot make.
 */
export function holdFiles(ctx: Ctx, task: TrainTask | PreviewTask): () => void {
  const held = rowsOf(task.plan).map((path) => rowFiles.hold(ctx, path));
  return () => {
    for (const each of held) each?.release();
  };
}
