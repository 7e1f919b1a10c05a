/** The jail of a custom job on this machine. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { type Driver, gpuNodes } from "../../../../platform/machine/gpu_nodes.ts";
import { type Cards, customJail } from "../../../../sandbox/jail/custom_jail.ts";
import type { JailSpec } from "../../../../sandbox/jail/types.ts";
import { runTime } from "../../../money/billing/run_time.ts";
import { runtimeMs } from "../policy.ts";
import type { JobRow } from "../table.ts";
import type { JobDir } from "./files.ts";
import { resourcesOf } from "./resources.ts";

/** Throws if the nodes cannot be matched to the cards: the job must not get the cards of others. */
export function nodesOf(cards: readonly string[], driver: () => Driver): string[] {
  if (cards.length === 0) return [];
  try {
    return gpuNodes(cards, driver());
  } catch (error) {
    throw new AppError("unsupported_state", `The job cannot use its GPU: ${(error as Error).message}`, {
      param: "/gpu",
      cause: error,
    });
  }
}

/** How long the command may still run. */
export const leftMs = (ctx: Ctx, job: JobRow): number => {
  const most = Math.min(
    job.maxRuntimeMs ?? Number.POSITIVE_INFINITY,
    ctx.config.training.max_runtime_minutes * MINUTE_MS,
  );
  return Math.max(1000, most - runtimeMs(job, runTime(ctx, job.id)));
};

type Inputs = {
  dir: JobDir;
  cards: Cards;
  env: Record<string, string>;
  secrets: Record<string, string>;
  proxy: string | undefined;
};

export function specOf(ctx: Ctx, job: JobRow, { dir: { work, copies }, ...inputs }: Inputs): JailSpec {
  return customJail({
    job: { id: job.id, seed: job.seed, command: job.command ?? "" },
    work,
    resources: resourcesOf(ctx, job),
    limits: {
      processes: ctx.config.custom_jobs.processes,
      entries: ctx.config.sessions.disk_entries,
      wallMs: leftMs(ctx, job),
    },
    readOnly: copies.flatMap(({ volume, below }, index) =>
      below === null ? [{ index, path: volume.mount_path }] : [],
    ),
    ...inputs,
  });
}
