/** Counts a request for the minute and the hour in which it ends. A deployment has a bounded number of such rows. */
import { and, eq, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { DAY_MS, MINUTE_MS } from "../../../../lib/units.ts";
import { type Db, prepared, type Tx } from "../../../../platform/db/db.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import { deploymentTraffic } from "../table.ts";
import { bucketOf } from "./buckets.ts";

/** Lengths of the spans, in minutes, and how long each is kept. */
export const SPANS = [1, 60] as const;
const MINUTE_DAYS = 2;

export type EndedRequest = {
  prompt: number;
  cached: number;
  completion: number;
  failed: boolean;
  /** Null: a request that failed, or whose client left, says nothing about the speed. */
  answerMs: number | null;
  firstTokenMs: number | null;
  /** For a replica. */
  waitedMs: number;
  /** Requests at once when it came, with it. */
  open: number;
  waiting: number;
};

const add = prepared((db: Db) => {
  const bound = (name: string) => sql`${sql.placeholder(name)}`;
  const plus = (column: string) => sql.raw(`${column} + excluded.${column}`);
  const most = (column: string) => sql.raw(`max(${column}, excluded.${column})`);
  /** One more in the bucket of the new row, which has at most one. */
  const merged = (column: string, path: string) =>
    sql`CASE WHEN ${bound(path)} IS NULL THEN ${sql.raw(column)} ELSE
      json_set(${sql.raw(column)}, ${bound(path)}, coalesce(${sql.raw(column)} ->> ${bound(path)}, 0) + 1) END`;
  const { deploymentId, minutes, minute } = deploymentTraffic;
  return db
    .insert(deploymentTraffic)
    .values({
      deploymentId: bound("deploymentId"),
      minutes: bound("minutes"),
      minute: bound("minute"),
      requests: 1,
      errors: bound("errors"),
      promptTokens: bound("prompt"),
      cachedTokens: bound("cached"),
      completionTokens: bound("completion"),
      waitedMs: bound("waitedMs"),
      mostOpen: bound("open"),
      mostWaiting: bound("waiting"),
      answerMs: bound("answer"),
      firstTokenMs: bound("firstToken"),
    })
    .onConflictDoUpdate({
      target: [deploymentId, minutes, minute],
      set: {
        requests: plus("requests"),
        errors: plus("errors"),
        promptTokens: plus("prompt_tokens"),
        cachedTokens: plus("cached_tokens"),
        completionTokens: plus("completion_tokens"),
        waitedMs: plus("waited_ms"),
        mostOpen: most("most_open"),
        mostWaiting: most("most_waiting"),
        answerMs: merged("answer_ms", "answerPath"),
        firstTokenMs: merged("first_token_ms", "firstTokenPath"),
      },
    })
    .prepare();
});

const countOf = (ms: number | null) => (ms === null ? "{}" : `{"${bucketOf(ms)}":1}`);
const pathOf = (ms: number | null) => (ms === null ? null : `$."${bucketOf(ms)}"`);

/** In the commit that records the request. `now`: the time of its end. */
export function addTraffic(tx: Tx, deploymentId: string, request: EndedRequest, now: number) {
  const { failed, answerMs, firstTokenMs, ...figures } = request;
  const values = {
    ...figures,
    deploymentId,
    errors: failed ? 1 : 0,
    answer: countOf(answerMs),
    answerPath: pathOf(answerMs),
    firstToken: countOf(firstTokenMs),
    firstTokenPath: pathOf(firstTokenMs),
  };
  const at = Math.floor(now / MINUTE_MS);
  for (const minutes of SPANS) add(tx).run({ ...values, minutes, minute: at - (at % minutes) });
}

/** Minutes are kept for two days. Hours are kept as long as the requests. */
export async function pruneTraffic(ctx: Ctx, hoursBefore: number): Promise<void> {
  const { deploymentId, minutes, minute } = deploymentTraffic;
  const before = { 1: ctx.clock.now() - MINUTE_DAYS * DAY_MS, 60: hoursBefore };
  for (const length of SPANS) {
    const isOld = and(eq(minutes, length), lt(minute, Math.floor(before[length] / MINUTE_MS)));
    await gradually(ctx.db, (tx, rows) => {
      const old = tx.select({ deploymentId, minutes, minute }).from(deploymentTraffic).where(isOld).limit(rows);
      return tx
        .delete(deploymentTraffic)
        .where(sql`(${deploymentId}, ${minutes}, ${minute}) IN ${old}`)
        .returning({ minute })
        .all().length;
    });
  }
}
