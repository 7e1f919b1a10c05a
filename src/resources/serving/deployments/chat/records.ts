/** One row for each request, and the sums of its deployment in the same commit. */
import { eq, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { type PageQuery, page } from "../../../../http/answer/pagination.ts";
import { CLIENT_LEFT_STATUS } from "../../../../lib/net/client_left.ts";
import { afterCommit, prepared, write } from "../../../../platform/db/db.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import { preparedInsert } from "../../../../platform/db/row.ts";
import { histogram } from "../../../../platform/metrics.ts";
import { addRequest } from "../../../money/cost/requests.ts";
import { presentRequest } from "../schema.ts";
import { type DeploymentRow, deploymentRequests, deployments } from "../table.ts";
import { insertLine } from "../traffic/log.ts";
import { addTraffic } from "../traffic/record.ts";

const insert = preparedInsert(deploymentRequests);
const addUp = prepared((db) => {
  const plus = (column: string) => sql.raw(`${column} + `);
  return db
    .update(deployments)
    .set({
      totalRequests: sql`${plus("total_requests")} 1`,
      totalErrors: sql`${plus("total_errors")} ${sql.placeholder("error")}`,
      totalPromptTokens: sql`${plus("total_prompt_tokens")} ${sql.placeholder("prompt")}`,
      totalCompletionTokens: sql`${plus("total_completion_tokens")} ${sql.placeholder("completion")}`,
      totalLatencyMs: sql`${plus("total_latency_ms")} ${sql.placeholder("latency")}`,
      lastRequestAt: sql`${sql.placeholder("at")}`,
    })
    .where(eq(deployments.id, sql.placeholder("id")))
    .prepare();
});

const durations = histogram(
  "verk_inference_duration_seconds",
  "Time of requests to deployments, from their arrival to the last byte, waking included",
  [],
  [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
);

/** `code`: of the error that the client reads. */
export type Outcome = { status: number; error: string | null; code?: string | null };

/** `prompt`, `completion`: tokens. */
type Request = Outcome & {
  id: string;
  createdAt: number;
  latencyMs: number;
  keyId: string | null;
  /** The model that answered, or would have. */
  model: string;
  prompt: number;
  cached: number;
  completion: number;
  firstTokenMs: number | null;
  waitedMs: number;
  open: number;
  waiting: number;
};

export function saveRequest(ctx: Ctx, row: DeploymentRow, request: Request) {
  const { id, createdAt, latencyMs, status, error, prompt, completion, firstTokenMs } = request;
  const hasFailed = status >= 400 && status !== CLIENT_LEFT_STATUS;
  const isGood = status < 400;
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    insert(tx, {
      id,
      workspaceId: row.workspaceId,
      deploymentId: row.id,
      promptTokens: prompt,
      completionTokens: completion,
      latencyMs,
      statusCode: status,
      errorMessage: error,
      createdAt,
    });
    addUp(tx).run({ id: row.id, error: hasFailed ? 1 : 0, prompt, completion, latency: latencyMs, at: createdAt });
    const times = { answerMs: isGood ? latencyMs : null, firstTokenMs: isGood ? firstTokenMs : null };
    addTraffic(tx, row.id, { ...request, ...times, failed: hasFailed }, now);
    addRequest(tx, { ...request, workspaceId: row.workspaceId }, now);
    if (hasFailed) {
      const text = `${id} was answered with ${status}: ${error ?? "no reason is known"}`;
      insertLine(tx, { deploymentId: row.id, at: now, level: status >= 500 ? "error" : "warn", text });
    }
    afterCommit(tx, () => durations.observe(tx, row.workspaceId, [], latencyMs / 1000));
  });
}

export const listRequests = (ctx: Ctx, { id }: DeploymentRow, query: PageQuery) =>
  page(ctx.db, deploymentRequests, eq(deploymentRequests.deploymentId, id), query, presentRequest);

export const pruneRequests = (ctx: Ctx, before: number): Promise<number> =>
  gradually(ctx.db, (tx, rows) => {
    const { id, createdAt } = deploymentRequests;
    const old = tx.select({ id }).from(deploymentRequests).where(lt(createdAt, before)).limit(rows);
    return tx.delete(deploymentRequests).where(sql`${id} IN ${old}`).returning({ id }).all().length;
  });
