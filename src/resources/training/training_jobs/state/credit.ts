/**
 * A job that costs something runs only while its workspace has credit and its API key has budget. Without them the job
 * is paused, never ended.
 */

import type { Ctx } from "../../../../context.ts";
import { prepared } from "../../../../platform/db/db.ts";
import type * as budgets from "../../../money/billing/budget.ts";
import * as billing from "../../../money/billing/service.ts";
import { judgeCredit } from "../policy.ts";
import type { JobRow } from "../table.ts";
import * as moves from "./moves.ts";

type Group = budgets.Payer & Pick<JobRow, "status" | "pauseReason">;

const COSTLY = "completed_at IS NULL AND rate_micros > 0";
/** Groups of jobs that get the same verdict. There are few groups, however many jobs wait. */
const groups = prepared((db) =>
  db.$client.prepare<Group, []>(
    `SELECT workspace_id AS workspaceId, api_key_id AS keyId, status, pause_reason AS pauseReason
     FROM training_jobs INDEXED BY training_jobs_payers WHERE ${COSTLY}
     GROUP BY workspace_id, api_key_id, status, pause_reason`,
  ),
);
const members = prepared((db) =>
  db.$client.prepare<{ id: string }, [string, string | null, string, string | null]>(
    `SELECT id FROM training_jobs INDEXED BY training_jobs_payers
     WHERE ${COSTLY} AND workspace_id = ? AND api_key_id IS ? AND status = ? AND pause_reason IS ?`,
  ),
);

export function enforceCredit(ctx: Ctx) {
  const shortages = new Map<string, billing.Shortage | null>();
  for (const group of groups(ctx.db).all()) {
    const { workspaceId, keyId, status, pauseReason } = group;
    const payer = `${workspaceId} ${keyId}`;
    const shortage = shortages.has(payer) ? (shortages.get(payer) ?? null) : billing.shortageOf(ctx, group);
    shortages.set(payer, shortage);
    const verdict = judgeCredit(group, shortage);
    if (verdict === "nothing") continue;
    for (const { id } of members(ctx.db).all(workspaceId, keyId, status, pauseReason))
      if (shortage !== null) moves.pauseForCredit(ctx, id, shortage);
      else moves.resumeFromCredit(ctx, id);
  }
}
