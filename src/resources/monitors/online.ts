/** Online evaluation: an evaluator scores a share of the captured requests of a monitor's deployment. */
import { eq, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { durable, type Tx, write } from "../../platform/db/db.ts";
import type { EvaluationItem, EvaluationResult, Message } from "../evaluators/item.ts";
import { run } from "../evaluators/run.ts";
import * as evaluators from "../evaluators/service.ts";
import * as traces from "../traces/service.ts";
import { type TraceRow, traces as traceTable } from "../traces/table.ts";
import { type MonitorRow, monitors } from "./table.ts";

const MOST_ITEMS = 100; // of one monitor in one turn

/** The loop. A monitor whose evaluation fails does not stop the others. */
export async function scoreTraffic(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const rows = ctx.db.select().from(monitors).where(isNotNull(monitors.evaluator)).all();
  for (const row of rows) {
    if (signal.aborted) return;
    await scoreFor(ctx, row, signal).catch((error) => {
      if (!signal.aborted) ctx.log.warn("an online evaluation failed", { monitor: row.id, error });
    });
  }
}

/**
 * Each captured request is chosen or passed over once. The scores and the time up to which traffic was sampled are one
 * commit, so a kill repeats an evaluation, never a score.
 */
async function scoreFor(ctx: Ctx, row: MonitorRow, signal: AbortSignal) {
  const { workspaceId, deploymentId, evaluator: ref, samplePercent, score: name } = row;
  if (ref === null || deploymentId === null || name === null) return;
  const since = row.sampledUntil ?? row.createdAt;
  const rate = (samplePercent ?? 100) / 100;
  const now = ctx.clock.now();
  const found = traces.sample(ctx, { workspaceId, deploymentId, since, rate }).filter((each) => each.createdAt < now);
  const until = endOf(found, now);
  const chosen = found.filter((each) => each.createdAt < until).flatMap((trace) => itemOf(trace) ?? []);
  const evaluator = evaluators.resolve(ctx, workspaceId, ref);
  const items = chosen.map(({ item }) => item);
  const results = items.length === 0 ? [] : await run(ctx, workspaceId, evaluator, items, signal);
  const source = evaluator.kind === "llm_judge" ? "judge" : "code";
  write(ctx.db, (tx) => {
    for (const [i, { id }] of chosen.entries()) {
      const { score, reason } = results[i] as EvaluationResult;
      if (score === null || !isThere(tx, id)) continue;
      const given = { workspaceId, traceId: id, name, value: score, source, evaluatorId: evaluator.id } as const;
      traces.addScore(ctx, { ...given, comment: reason });
    }
    tx.update(monitors).set({ sampledUntil: until }).where(eq(monitors.id, row.id)).run();
  });
  await durable(ctx.db);
  const failed = results.filter(({ score }) => score === null);
  if (failed.length > 0)
    ctx.log.warn("an online evaluation gave no score", {
      ...{ monitor: row.id, evaluator: evaluator.id, count: failed.length, error: failed[0]?.error },
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
function itemOf({ id, input, output }: TraceRow): { id: string; item: EvaluationItem } | undefined {
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
