/**
 * Jobs that cost something go on only while their workspace has credit and their API key has budget: without them they
 * are paused, never ended.
 */

import type { Ctx } from "../../../context.ts";
import { prepared } from "../../../platform/db/db.ts";
import type * as budgets from "../../billing/budget.ts";
import * as billing from "../../billing/service.ts";
import { judgeCredit } from "../policy.ts";
import type { JobRow } from "../table.ts";
import * as moves from "./moves.ts";

type Group = budgets.Payer & Pick<JobRow, "status" | "pauseReason">;

const COSTLY = "completed_at IS NULL AND rate_micros > 0";
/** Groups of jobs that are judged alike: there are few, however many jobs wait. */
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

export function keepToCredit(ctx: Ctx) {
  const known = new Map<string, billing.Shortage | null>();
  for (const group of groups(ctx.db).all()) {
    const { workspaceId, keyId, status, pauseReason } = group;
    const payer = `${workspaceId} ${keyId}`;
    const short = known.has(payer) ? (known.get(payer) ?? null) : billing.shortageOf(ctx, group);
    known.set(payer, short);
    const verdict = judgeCredit(group, short);
    if (verdict === "nothing") continue;
    for (const { id } of members(ctx.db).all(workspaceId, keyId, status, pauseReason))
      if (short !== null) moves.pauseForMoney(ctx, id, short);
      else moves.resumeWithMoney(ctx, id);
  }
}
