/** The task of a trainer on this node, and how the trainer is started and judged. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../platform/config/config.ts";
import { type Gpu, listGpus, outOfMemoryKills } from "../../platform/machine/hardware.ts";
import { CHECKPOINT, type NodeExit, type NodePlan } from "../../platform/providers/protocol.ts";
import type { Exit } from "../../platform/workers/types.ts";
import { FromTrainer, ToTrainer, type TrainTask } from "../../workers/protocol_trainer.ts";
import { cpuCount, gpuCount, visibleGpus } from "./scheduler.ts";

/** Paths below the work directory become absolute; devices are those of this node. `nodes`: that share the run. */
export async function taskOf(root: string, plan: NodePlan, config: Config, nodes: number): Promise<TrainTask> {
  const gpus = plan.gpus / nodes;
  const shown = gpus === 0 ? 0 : Math.min(gpuCount(Number.MAX_SAFE_INTEGER), (await listGpus()).length);
  if (shown < gpus) throw new Error(`this node shows ${shown} GPUs, and the job needs ${gpus}`);
  const ranks = Number(plan.task["ranks"] ?? 1) / nodes; // of this node
  const threads = Math.max(1, Math.floor((cpuCount() - 1) / Math.max(1, ranks)));
  const device = { data_dir: config.data_dir, threads, gpus: Array.from({ length: gpus }, (_, i) => i) };
  const task = ToTrainer.parse({ ...plan.task, ...device });
  if (task.type !== "train") throw new Error("the plan is no training");
  const at = <T extends string | null>(path: T) => (path === null ? path : join(root, path)) as T;
  const rows = (spec: TrainTask["plan"]["rows"]) => ({ ...spec, path: at(spec.path) });
  const { start_adapter: start, teacher_path: teacher, eval_rows: held } = task.plan;
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
      ...(teacher === undefined ? {} : { teacher_path: at(teacher) }),
    },
  };
}

/** The GPUs that a scheduler leaves to this process; without one, all of them. */
export function shownGpus(gpus: readonly Gpu[]): Gpu[] {
  const shown = visibleGpus();
  if (!shown) return [...gpus];
  return shown.flatMap((name) => gpus.find(({ uuid, index }) => uuid === name || String(index) === name) ?? []);
}

export function newestCheckpoint(dir: string): string | undefined {
  const newest = readdirSync(dir)
    .filter((name) => CHECKPOINT.test(name))
    .sort()
    .at(-1);
  return newest && join(dir, newest);
}

export function trainerOptions(task: TrainTask) {
  const { rows, eval_rows, model_path, start_adapter, teacher_path } = task.plan;
  const files = [model_path, rows.path, eval_rows?.path, start_adapter, teacher_path, task.resume, task.warm_start];
  return {
    kind: "trainer",
    incoming: FromTrainer,
    ignoresTerm: true, // Slurm sends the signal to all processes, and only the supervisor of rank 0 obeys it
    grants: {
      gpu: task.gpus.length > 0,
      reads: files.filter((path) => typeof path === "string"),
      writes: [task.checkpoint_dir],
    },
  };
}

/** `kills`: of the kernel for want of memory, before the start. */
export function asExit({ kind, message, tail, signal, forced }: Exit, kills: number): NodeExit {
  const killed = kind === "crashed" && signal === "SIGKILL" && !forced;
  return { kind: killed && outOfMemoryKills() > kills ? "memory" : kind, message, tail, killed };
}
