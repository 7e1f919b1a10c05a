import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { afterCommit, type Db, durable, openCommit, type Tx, write } from "../../../../platform/db/db.ts";
import { preparedInsert } from "../../../../platform/db/row.ts";
import { counter } from "../../../../platform/metrics.ts";
import { deliveryMachine, machine } from "../machine.ts";
import { webhookAttempts, webhookDeliveries, webhookEndpoints } from "../table.ts";
import type { AttemptResult } from "./attempt.ts";
import { readFacts } from "./facts.ts";
import { holdWaiting } from "./held.ts";
import { type DeliveryStatus, type Endpoint, judge, type Trigger } from "./verdict.ts";

const STEPS = {
  pending: "retry",
  succeeded: "succeed",
  failed: "fail",
  exhausted: "exhaust",
  cancelled: "cancel",
} as const satisfies Record<DeliveryStatus, keyof typeof deliveryMachine.steps>;

const insertAttempt = preparedInsert(webhookAttempts);
const attempts = counter("verk_webhook_attempts_total", "Delivery attempts, by result", ["result"]);

/** The class of the answer, or the reason why there was none. */
const resultOf = ({ responseCode, errorCode }: AttemptResult) =>
  responseCode === null ? (errorCode ?? "internal") : `${Math.floor(responseCode / 100)}xx`;

export type FinishedAttempt = { deliveryId: string; trigger: Trigger; result: AttemptResult };

/** Results that are written together. `done` resolves with the errors of those that could not be written. */
export type ResultBatch = { results: FinishedAttempt[]; done: Promise<Map<FinishedAttempt, unknown>> };

/**
 * Writes the result of an attempt. Resolves when its commit has closed; rejects when the write failed or the commit was
 * lost. Results that come close together share a commit, so that a page of a table is written once for all of them.
 */
export async function record(ctx: Pick<Ctx, "db" | "state">, finished: FinishedAttempt): Promise<void> {
  const { webhooks } = ctx.state;
  webhooks.openBatch ??= startBatch(ctx);
  webhooks.openBatch.results.push(finished);
  const failed = await webhooks.openBatch.done;
  if (failed.has(finished)) throw failed.get(finished);
}

/** Adds a body that came after the status line had acknowledged the delivery. It may be lost: only a person reads it. */
export async function recordBody(
  { db, state: { webhooks } }: Pick<Ctx, "db" | "state">,
  deliveryId: string,
  attemptedAt: number,
  late: Promise<string | null>,
): Promise<void> {
  const responseBody = await late;
  if (responseBody === null) return;
  const one = and(eq(webhookAttempts.deliveryId, deliveryId), eq(webhookAttempts.attemptedAt, attemptedAt));
  const put = (tx: Tx) => void tx.update(webhookAttempts).set({ responseBody }).where(one).run();
  try {
    webhooks.flushGuard.exempt(db, () => write(db, put));
  } catch {} // the server stops or cannot write, which others report
}

const HOLD_MS = 1;
const FEW_ATTEMPTS = 4; // no other result is likely to come soon

function startBatch({ db, state: { webhooks } }: Pick<Ctx, "db" | "state">): ResultBatch {
  const results: FinishedAttempt[] = [];
  const close = async () => {
    const isBusy = webhooks.attempts > FEW_ATTEMPTS;
    await new Promise<void>((resolve) => (isBusy ? setTimeout(resolve, HOLD_MS) : setImmediate(resolve)));
    webhooks.openBatch = undefined;
    const failed = webhooks.flushGuard.exempt(db, () => writeAll(db, results));
    await openCommit(db);
    durable(db).catch(() => {}); // soon, and nothing waits for it; after a failed flush no write is accepted
    return failed;
  };
  return { results, done: close() };
}

/** Writes all at once, or each by itself if that fails: a result that cannot be written takes no other with it. */
function writeAll(db: Db, results: readonly FinishedAttempt[]): Map<FinishedAttempt, unknown> {
  const failed = new Map<FinishedAttempt, unknown>();
  try {
    write(db, (tx) => {
      for (const each of results) putResult(tx, each);
    });
  } catch {
    for (const each of results)
      try {
        write(db, (tx) => putResult(tx, each));
      } catch (error) {
        failed.set(each, error);
      }
  }
  return failed;
}

/** The attempt's row, the delivery and the endpoint change in one commit. They are judged as they are now. */
function putResult(tx: Tx, { deliveryId, trigger, result }: FinishedAttempt): void {
  const facts = readFacts(tx, deliveryId);
  if (!facts) return;
  const { delivery, endpoint, endpointId, workspaceId } = facts;
  const { attemptedAt, endedAt, outcome, lateBody: _, ...answer } = result;
  const now = endedAt;
  const after = judge(delivery, endpoint, { trigger, endedAtMs: endedAt, outcome });
  const { status, attemptCount, scheduledCount, dueAtMs: dueAt } = after.delivery;
  const durationMs = Math.max(0, endedAt - attemptedAt);
  insertAttempt(tx, { deliveryId, number: attemptCount, attemptedAt, trigger, durationMs, ...answer });
  afterCommit(tx, () => attempts.add(tx, workspaceId, [resultOf(result)]));
  const { responseCode, errorMessage } = result;
  const patch = {
    attemptCount,
    scheduledCount,
    dueAt,
    ...(trigger === "manual" || dueAt === null ? { resendAt: null } : {}),
    lastResponseCode: responseCode,
    lastError: errorMessage ?? (status === "succeeded" ? null : `The endpoint answered with status ${responseCode}`),
  };
  if (status !== delivery.status || status === "pending")
    transition(tx, deliveryMachine, STEPS[status], { id: deliveryId, now, isUnread: true }, patch);
  else
    tx.update(webhookDeliveries)
      .set({ ...patch, updatedAt: now })
      .where(eq(webhookDeliveries.id, deliveryId))
      .run();
  putEndpoint(tx, endpointId, endpoint, { after: after.endpoint, gone: responseCode === 410, now });
  if (after.holdOthers) holdWaiting(tx, endpointId, now);
}

type EndpointChange = { after: Endpoint; gone: boolean; now: number };

function putEndpoint(tx: Tx, id: string, before: Endpoint, { after, gone, now }: EndpointChange) {
  const { consecutiveFailures } = after;
  if (after.status === "disabled" && before.status === "enabled") {
    const disabledReason = gone ? "gone" : "consecutive_failures";
    const patch = { consecutiveFailures, disabledAt: after.disabledAtMs, disabledReason } as const;
    transition(tx, machine, "disable", { id, now }, patch);
  } else if (consecutiveFailures !== before.consecutiveFailures)
    tx.update(webhookEndpoints).set({ consecutiveFailures }).where(eq(webhookEndpoints.id, id)).run();
}
