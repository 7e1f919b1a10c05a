/** Jobs that cost something go on only while their workspace has credit: without it they are paused, never ended. */
import type { Ctx } from "../../context.ts";
import * as billing from "../billing/service.ts";
import * as moves from "./moves.ts";
import { judgeCredit } from "./policy.ts";
import type { JobRow } from "./table.ts";

/** Whether a job was moved: what was read before is old then. */
export function keepToCredit(ctx: Ctx, rows: readonly JobRow[]): boolean {
  const left = new Map<string, number>();
  let moved = false;
  for (const row of rows) {
    if (!row.rateMicros) continue;
    const { workspaceId } = row;
    const micros = left.get(workspaceId) ?? billing.leftMicros(ctx, workspaceId);
    left.set(workspaceId, micros);
    const verdict = judgeCredit(row, micros);
    if (verdict === "pause") moved = moves.starve(ctx, row.id) !== undefined || moved;
    else if (verdict === "resume") moved = moves.feed(ctx, row.id) !== undefined || moved;
  }
  return moved;
}
