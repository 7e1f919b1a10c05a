/** Online evaluation: an evaluator scores a share of the captured requests of a monitor's deployment. */
import { and, eq, inArray, isNotNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import { type Db, durable, prepared, write } from "../../../platform/db/db.ts";
import { Semaphore } from "../../../platform/semaphore.ts";
import type { EvaluationItem, Message } from "../../quality/evaluators/item.ts";
import { run } from "../../quality/evaluators/run.ts";
import * as evaluators from "../../quality/evaluators/service.ts";
import type { EvaluatorRow } from "../../quality/evaluators/table.ts";
import * as traces from "../traces/service.ts";
import { type TraceRow, traceScores, traces as traceTable } from "../traces/table.ts";
import { type MonitorRow, monitors } from "./table.ts";

/** Monitors that are scored at the same time. */
const PERMITS = { permits: 12, mostEach: 8, mostWaitingEach: Number.POSITIVE_INFINITY }; // monitors.max_per_workspace
const ROUND_MS = 5 * SECOND_MS;
const MOST_ITEMS = 20; // of one evaluation
const TURN_MS = 30 * SECOND_MS; // then the other monitors get their turn
/** A judge waits while live requests need its deployment. Without a limit, one busy deployment would stop all monitors. */
const EVALUATION_MS = 2 * MINUTE_MS;

const withEvaluator = prepared((db) => db.select().from(monitors).where(isNotNull(monitors.evaluator)).prepare());

/**
 * The loop. A monitor whose evaluation fails does not stop the others. Workspaces whose monitors are done begin another
 * round while those of others still wait for slow judges.
 */
export async function scoreTraffic(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const permits = new Semaphore({ name: "online evaluations", ...PERMITS });
  const busy = new Map<string, Promise<void>>();
  const trouble: unknown[] = [];
  const startIdle = () => {
    const rows = withEvaluator(ctx.db).all();
    for (const [workspaceId, ofWorkspace] of Map.groupBy(rows, (row) => row.workspaceId)) {
      if (busy.has(workspaceId)) continue;
      const all = ofWorkspace.map(async ({ id }) => {
        const release = await permits.acquire({ workspaceId, signal });
        await scoreFor(ctx, id, signal).finally(release);
      });
      const done = Promise.allSettled(all).then((results) => {
        for (const each of results) if (each.status === "rejected") trouble.push(each.reason);
        busy.delete(workspaceId);
      });
      busy.set(workspaceId, done);
    }
  };
  do {
    startIdle();
    const over = new AbortController();
    const all = Promise.all(busy.values()).then(() => over.abort());
    await Promise.race([all, ctx.clock.sleep(ROUND_MS, AbortSignal.any([signal, over.signal]))]);
    over.abort();
  } while (busy.size > 0 && trouble.length === 0 && !signal.aborted);
  await Promise.all(busy.values()); // after a throw, no evaluation runs on
  if (trouble.length > 0) throw trouble[0];
}

async function scoreFor(ctx: Ctx, id: string, signal: AbortSignal) {
  const end = performance.now() + TURN_MS;
  for (let hasMore = true; hasMore && !signal.aborted && performance.now() < end; ) {
    const row = ctx.db.select().from(monitors).where(eq(monitors.id, id)).get();
    hasMore = row !== undefined && row.evaluator !== null && (await scoreSome(ctx, row, signal));
  }
}

/**
 * Each captured request is chosen or passed over once. The scores and the time up to which traffic was sampled are one
 * commit, so a kill repeats an evaluation, never a score. Requests whose evaluation failed are passed over.
 * Returns true if more requests wait.
 */
async function scoreSome(ctx: Ctx, row: MonitorRow, signal: AbortSignal): Promise<boolean> {
  const now = ctx.clock.now();
  const sample = sampled(ctx, row, now);
  const until = endOf(sample, now);
  const last = row.sampledUntil ?? 0;
  if (sample.length === 0 && last <= now && now - last < MINUTE_MS) return false; // nothing to write down
  const scores = await scoresFor(
    ctx,
    row,
    sample.filter(({ createdAt }) => createdAt < until),
    signal,
  );
  if (signal.aborted) return false;
  write(ctx.db, (tx) => {
    const open = unscored(tx, scores);
    for (const score of scores) if (open.has(score.traceId)) traces.addScore(ctx, score);
    const same = and(eq(monitors.id, row.id), eq(monitors.evaluator, row.evaluator ?? ""));
    tx.update(monitors).set({ sampledUntil: until }).where(same).run();
  });
  await durable(ctx.db);
  return until < now;
}

/** A time ahead of the clock means that the clock was set back. */
function sampled(ctx: Ctx, row: MonitorRow, now: number): TraceRow[] {
  const { workspaceId, deploymentId } = row;
  if (deploymentId === null) return [];
  const since = Math.min(row.sampledUntil ?? row.createdAt, now);
  const rate = (row.samplePercent ?? 100) / 100;
  return traces.sample(ctx, { workspaceId, deploymentId, since, rate }).filter((each) => each.createdAt < now);
}

/** The rest of more than `MOST_ITEMS` waits for the next evaluation. Requests of one millisecond stay together. */
function endOf(sample: readonly TraceRow[], now: number): number {
  const next = sample[MOST_ITEMS]?.createdAt;
  const first = sample[0]?.createdAt;
  return next === undefined || first === undefined ? now : Math.max(next, first + 1);
}

type NewScore = traces.NewScore & { evaluatorId: string };

async function scoresFor(ctx: Ctx, row: MonitorRow, sample: readonly TraceRow[], signal: AbortSignal) {
  const items = sample.flatMap((trace) => itemOf(trace) ?? []);
  if (items.length === 0) return [];
  try {
    const evaluator = evaluators.resolve(ctx, row.workspaceId, row.evaluator ?? "");
    return await evaluated(ctx, row, evaluator, items, AbortSignal.any([signal, AbortSignal.timeout(EVALUATION_MS)]));
  } catch (error) {
    if (!signal.aborted) ctx.log.warn("an online evaluation failed", { monitor: row.id, count: items.length, error });
    return [];
  }
}

type Item = { id: string; item: EvaluationItem };

async function evaluated(
  ctx: Ctx,
  row: MonitorRow,
  evaluator: EvaluatorRow,
  items: readonly Item[],
  signal: AbortSignal,
): Promise<NewScore[]> {
  const { workspaceId } = row;
  const source = evaluator.kind === "llm_judge" ? ("judge" as const) : ("code" as const);
  const fields = { workspaceId, name: row.score ?? evaluator.name, source, evaluatorId: evaluator.id };
  const open = unscored(
    ctx.db,
    items.map(({ id }) => ({ ...fields, traceId: id })),
  );
  const left = items.filter(({ id }) => open.has(id));
  const texts = left.map(({ item }) => item);
  const results = await run(ctx, workspaceId, evaluator, texts, signal);
  const failed = results.filter(({ score }) => score === null);
  if (failed.length > 0) {
    const counts = { count: failed.length, error: failed[0]?.error };
    ctx.log.warn("an online evaluation gave no score", { monitor: row.id, evaluator: evaluator.id, ...counts });
  }
  return results.flatMap(({ score: value, reason: comment }, i) => {
    const traceId = left[i]?.id;
    return value === null || traceId === undefined ? [] : [{ ...fields, traceId, value, comment }];
  });
}

type Scored = Pick<NewScore, "traceId" | "name" | "evaluatorId">;

/**
 * The traces that are still stored and have no score of this name by this evaluator. Two monitors of one score do not
 * count a request twice, and neither does a clock that was set back. Retention may remove a trace during its evaluation.
 */
function unscored(db: Db, scores: readonly Scored[]): ReadonlySet<string> {
  const [first] = scores;
  if (!first) return new Set();
  const { traceId, name, evaluatorId } = traceScores;
  const has = sql`EXISTS (SELECT 1 FROM ${traceScores} WHERE ${traceId} = ${traceTable.id}
    AND ${name} = ${first.name} AND ${evaluatorId} = ${first.evaluatorId})`;
  const ids = scores.map((score) => score.traceId);
  const rows = db
    .select({ id: traceTable.id })
    .from(traceTable)
    .where(and(inArray(traceTable.id, ids), sql`NOT ${has}`))
    .all();
  return new Set(rows.map(({ id }) => id));
}

/** Undefined for a request without an answer in words, such as a failed one or a call of a tool. */
function itemOf({ id, input, output }: TraceRow): Item | undefined {
  const first: unknown = Array.isArray(output) ? output[0] : output;
  const text = textOf(typeof first === "object" ? (first as { content?: unknown } | null)?.content : first);
  if (text === "") return undefined;
  return { id, item: { input: Array.isArray(input) ? messagesOf(input) : textOf(input), output: text } };
}

const messagesOf = (messages: readonly unknown[]): Message[] =>
  messages.map((each) => {
    const { role, content } = (each ?? {}) as { role?: unknown; content?: unknown };
    return { role: typeof role === "string" ? role : "user", content: textOf(content) };
  });

/** A text, or the text parts of a message. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => textOf((part as { text?: unknown } | null)?.text)).join("");
}
