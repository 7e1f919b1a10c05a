/** What a request came to: one row each, and the deployment's sums in the same commit. */

import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { CLIENT_LEFT } from "../../../lib/client_left.ts";
import { newId } from "../../../lib/ids.ts";
import { afterCommit, prepared, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { histogram } from "../../../platform/metrics.ts";
import type { Live, Replica, Usage } from "../fleet/fleet.ts";
import { type DeploymentRow, deploymentRequests, deployments } from "../table.ts";

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

export type Outcome = { status: number; error: string | null };

export type Recorder = {
  readonly id: string;
  /** The worker has been asked: it will tell what was used, or die. */
  sentTo: (replica: Replica) => void;
  /** Once, whatever happens; the first call counts. */
  finish: (outcome: Outcome) => void;
};

export function record(ctx: Ctx, row: DeploymentRow, live: Live): Recorder {
  const id = newId("req", ctx.clock.now());
  const createdAt = ctx.clock.now();
  const startedAt = performance.now();
  let replica: Replica | undefined;
  let usage: Promise<Usage | undefined> = Promise.resolve(undefined);
  let over = false;
  live.usedAt = createdAt;
  return {
    id,
    sentTo(to) {
      const told = Promise.withResolvers<Usage | undefined>();
      replica = to;
      usage = told.promise;
      to.host.untold.set(id, told.resolve);
    },
    finish({ status, error }) {
      if (over) return;
      over = true;
      live.usedAt = ctx.clock.now();
      const latencyMs = performance.now() - startedAt;
      void (status < 400 ? usage : soon(ctx, usage))
        .then((used) => {
          replica?.host.untold.delete(id);
          const counted = { prompt: used?.prompt_tokens ?? 0, completion: used?.completion_tokens ?? 0 };
          save(ctx, row, { id, createdAt, latencyMs, status, error, ...counted });
        })
        .catch((cause) => ctx.log.error("a request was not recorded", { request: id, error: cause }));
    },
  };
}

const TOLD_MS = 5_000;

/** A request that was broken off may never have reached the worker: then nobody will tell. */
async function soon(ctx: Ctx, usage: Promise<Usage | undefined>): Promise<Usage | undefined> {
  const told = new AbortController();
  const used = await Promise.race([usage, ctx.clock.sleep(TOLD_MS, told.signal)]);
  told.abort();
  return used ?? undefined;
}

type Sums = Outcome & { id: string; createdAt: number; latencyMs: number; prompt: number; completion: number };

function save(ctx: Ctx, row: DeploymentRow, { id, createdAt, latencyMs, status, error, prompt, completion }: Sums) {
  const failed = status >= 400 && status !== CLIENT_LEFT ? 1 : 0;
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
    addUp(tx).run({ id: row.id, error: failed, prompt, completion, latency: latencyMs, at: createdAt });
    afterCommit(tx, () => durations.observe(tx, row.workspaceId, [], latencyMs / 1000));
  });
}
