/** Online evaluation: an evaluator scores a share of the captured requests of a monitor's deployment. */
import { and, eq, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import { durable, type Tx, write } from "../../platform/db/db.ts";
import type { EvaluationItem, Message } from "../evaluators/item.ts";
import { run } from "../evaluators/run.ts";
import * as evaluators from "../evaluators/service.ts";
import * as traces from "../traces/service.ts";
import { type TraceRow, traces as traceTable } from "../traces/table.ts";
import { type MonitorRow, monitors } from "./table.ts";

const MOST_ITEMS = 100; // of one monitor in one turn

/** The loop. A monitor whose evaluation fails does not stop the others. */
export async function scoreTraffic(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const rows = ctx.db.select().from(monitors).where(isNotNull(monitors.evaluator)).all();
  for (const row of rows) if (!signal.aborted) await scoreFor(ctx, row, signal);
}

/**
 * Each captured request is chosen or passed over once. The scores and the time up to which traffic was sampled are one
 * commit, so a kill repeats an evaluation, never a score. Requests whose evaluation failed are passed over.
 */
async function scoreFor(ctx: Ctx, row: MonitorRow, signal: AbortSignal) {
  const now = ctx.clock.now();
  const found = sampled(ctx, row, now);
  const until = endOf(found, now);
  const items = found.filter((each) => each.createdAt < until).flatMap((trace) => itemOf(trace) ?? []);
  const last = row.sampledUntil ?? 0;
  if (found.length === 0 && last <= now && now - last < MINUTE_MS) return; // nothing to write down
  let scores: traces.NewScore[] = [];
  try {
    scores = items.length === 0 ? [] : await scoresFor(ctx, row, items, signal);
  } catch (error) {
    if (signal.aborted) return;
    ctx.log.warn("an online evaluation failed", { monitor: row.id, count: items.length, error });
  }
  write(ctx.db, (tx) => {
    for (const score of scores) if (isThere(tx, score.traceId)) traces.addScore(ctx, score);
    const same = and(eq(monitors.id, row.id), eq(monitors.evaluator, row.evaluator ?? ""));
    tx.update(monitors).set({ sampledUntil: until }).where(same).run();
  });
  await durable(ctx.db);
}

/** A time ahead of the clock means that the clock was set back. */
function sampled(ctx: Ctx, row: MonitorRow, now: number): TraceRow[] {
  const { workspaceId, deploymentId } = row;
  if (deploymentId === null) return [];
  const since = Math.min(row.sampledUntil ?? row.createdAt, now);
  const rate = (row.samplePercent ?? 100) / 100;
  return traces.sample(ctx, { workspaceId, deploymentId, since, rate }).filter((each) => each.createdAt < now);
}

type Item = { id: string; item: EvaluationItem };

async function scoresFor(ctx: Ctx, row: MonitorRow, items: readonly Item[], signal: AbortSignal) {
  const { workspaceId } = row;
  const evaluator = evaluators.resolve(ctx, workspaceId, row.evaluator ?? "");
  const results = await run(
    ctx,
    workspaceId,
    evaluator,
    items.map(({ item }) => item),
    signal,
  );
  const failed = results.filter(({ score }) => score === null);
  if (failed.length > 0)
    ctx.log.warn("an online evaluation gave no score", {
      ...{ monitor: row.id, evaluator: evaluator.id, count: failed.length, error: failed[0]?.error },
    });
  const source = evaluator.kind === "llm_judge" ? ("judge" as const) : ("code" as const);
  const given = { workspaceId, name: row.score ?? evaluator.name, source, evaluatorId: evaluator.id };
  return results.flatMap(({ score: value, reason: comment }, i) => {
    const traceId = items[i]?.id;
    return value === null || traceId === undefined ? [] : [{ ...given, traceId, value, comment }];
  });
}

/** Retention may have removed a trace during its evaluation. */
const isThere = (tx: Tx, id: string): boolean =>
  tx.select({ id: traceTable.id }).from(traceTable).where(eq(traceTable.id, id)).get() !== undefined;

/** The rest of more than `MOST_ITEMS` waits for the next turn. Requests of one millisecond stay together. */
function endOf(found: readonly TraceRow[], now: number): number {
  const next = found[MOST_ITEMS]?.createdAt;
  const first = found[0]?.createdAt;
  return next === undefined || first === undefined ? now : Math.max(next, first + 1);
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
