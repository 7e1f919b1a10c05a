/** The files that a trainer process may reach for its task. */
import { dirname } from "node:path";
import type { Ctx } from "../../../../context.ts";
import type { Grants } from "../../../../platform/workers/types.ts";
import type { ExportTask, PreviewTask, TrainPlan, TrainTask } from "../../../../workers/protocol_trainer.ts";
import * as datasetFiles from "../../../data/datasets/stream/files.ts";

type Task = TrainTask | PreviewTask | ExportTask;

/** The folders in `writes` must exist before the worker starts. */
export function grantsOf(task: Task): Grants {
  const gpu = task.gpus.length > 0;
  if (task.type === "export")
    return { gpu, reads: [task.model_path, task.checkpoint], writes: [dirname(task.out)], updates: [] };
  const rows = rowFiles(task.plan);
  const { start_adapter: start, teacher_path: teacher } = task.plan;
  const from = [
    ...[start, teacher].filter((path) => path !== undefined),
    ...(task.type === "train" ? [task.resume, task.warm_start].filter((path) => path !== null) : []),
  ];
  return {
    gpu,
    reads: [task.plan.model_path, ...rows.flatMap((path) => [path, `${path}-wal`]), ...from],
    writes: task.type === "train" ? [task.checkpoint_dir] : [],
    updates: rows.map((path) => `${path}-shm`), // a reader of SQLite marks there how far it reads
  };
}

const rowFiles = ({ rows, eval_rows }: TrainPlan): string[] =>
  [rows, ...(eval_rows ? [eval_rows] : [])].map(({ path }) => path);

/**
 * Keeps the row files of a task open until the returned function is called. While the server has them open, SQLite's
 * two side files exist. The trainer may use those files but cannot create them.
 */
export function holdFiles(ctx: Ctx, task: TrainTask | PreviewTask): () => void {
  const holds = rowFiles(task.plan).map((path) => datasetFiles.hold(ctx, path));
  return () => {
    for (const hold of holds) hold?.release();
  };
}
