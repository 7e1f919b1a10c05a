/** Jobs that cost something go on only while their workspace has credit: without it they are paused, never ended. */
import type { Ctx } from "../../context.ts";
import { prepared } from "../../platform/db.ts";
import * as billing from "../billing/service.ts";
import * as moves from "./moves.ts";
import { judgeCredit } from "./policy.ts";
import type { JobRow } from "./table.ts";

type Standing = Pick<JobRow, "workspaceId" | "status" | "pauseReason">;

const COSTLY = "completed_at IS NULL AND rate_micros > 0";
/** Groups of jobs that are judged alike: there are few, however many jobs wait. */
const groups = prepared((db) =>
  db.$client.prepare<Standing, []>(
    `SELECT workspace_id AS workspaceId, status, pause_reason AS pauseReason
     FROM training_jobs INDEXED BY training_jobs_payers WHERE ${COSTLY} GROUP BY workspace_id, status, pause_reason`,
  ),
);
const members = prepared((db) =>
  db.$client.prepare<{ id: string }, [string, string, string | null]>(
    `SELECT id FROM training_jobs INDEXED BY training_jobs_payers
     WHERE ${COSTLY} AND workspace_id = ? AND status = ? AND pause_reason IS ?`,
  ),
);

export function keepToCredit(ctx: Ctx) {
  const left = new Map<string, number>();
  for (const group of groups(ctx.db).all()) {
    const { workspaceId, status, pauseReason } = group;
    const micros = left.get(workspaceId) ?? billing.leftMicros(ctx, workspaceId);
    left.set(workspaceId, micros);
    const verdict = judgeCredit(group, micros);
    if (verdict === "nothing") continue;
    for (const { id } of members(ctx.db).all(workspaceId, status, pauseReason))
      if (verdict === "pause") moves.starve(ctx, id);
      else moves.feed(ctx, id);
  }
}
