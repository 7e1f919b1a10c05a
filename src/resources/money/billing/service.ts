/** Charges for use, and the credit that a workspace has left: the sum of its ledger. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { microsOf, usdOf } from "../../../lib/money.ts";
import { formatDuration, isoTime } from "../../../lib/time.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import { costOf, priceOf } from "../cost/charge.ts";
import * as cost from "../cost/service.ts";
import { leftOf, type Payer, spend, tightestBudget } from "./budget.ts";
import { accountOf, append, openAccount, unopened } from "./ledger.ts";
import { nextMonthStart } from "./months.ts";
import { type BurnRate, presentEntry, presentMeter } from "./schema.ts";
import { type EntryRow, ledgerEntries, type SUBJECT_KINDS } from "./table.ts";
import { accruedMicros, liveMachines, runningJobs, servingDeployments } from "./usage.ts";

export { costOf };

/** A stretch of use of a job or a deployment. Its stretches follow each other without gap or overlap. */
export type Usage = Payer & {
  kind: (typeof SUBJECT_KINDS)[number];
  id: string;
  /** Its name in the ledger. */
  label: string;
  /** Use before this stretch, in ms. It only grows, so it identifies the stretch. */
  usedMs: number;
  ms: number;
  /** The end of the stretch by the time of day. It decides which month pays. */
  until: number;
  /** Micro-dollars for an hour of one replica; null: free. */
  ratePerHourMicros: number | null;
  /** Replicas. The number of devices is part of the rate. */
  count: number;
  /** `remainder` of the stretch before. */
  remainder: number;
  /** The machine under it is charged instead: the stretch has a cost in its record, and none in the ledger. */
  isPaidByMachine?: boolean;
};
export type Bill = Usage & { micros: number };

/** Pure. The caller writes the cost and the remainder into its row and calls `charge` in the same commit. */
export function billFor(usage: Usage): Bill {
  const { ratePerHourMicros, ms, count, remainder } = usage;
  return { ...usage, ...priceOf({ ratePerHourMicros, ms: Math.max(0, ms) * count, remainder }) };
}

/** Must be called in the commit that moves the row on: otherwise the stretch is charged again. */
export function charge(tx: Tx, bill: Bill, now: number) {
  const { workspaceId, keyId, kind, id, label, usedMs, ms, ratePerHourMicros, count, micros } = bill;
  if (!ratePerHourMicros || ms <= 0 || count <= 0 || bill.isPaidByMachine) return;
  const replicas = count === 1 ? "" : ` × ${count}`;
  append(
    tx,
    {
      workspaceId,
      apiKeyId: keyId,
      kind: "charge",
      amountMicros: 0 - micros,
      description: `${label}: ${formatDuration(ms)}${replicas} at ${dollars(ratePerHourMicros, 4)} an hour`,
      windowKey: `${id}/${usedMs}`,
      usage: { subjectKind: kind, subjectId: id, usageMs: ms * count, rateMicros: ratePerHourMicros },
    },
    now,
  );
  spend(tx, bill, now);
}

type WithDb = Pick<Ctx, "db">;

export const balanceMicros = ({ db }: WithDb, workspaceId: string): number =>
  accountOf(db, { workspaceId })?.balanceMicros ?? 0;

/** The balance less the use that is not charged yet. */
export const leftMicros = (ctx: Pick<Ctx, "db" | "clock" | "state">, workspaceId: string): number =>
  balanceMicros(ctx, workspaceId) - accruedMicros(ctx, workspaceId);

const FIX = "ask the operator for credit (verk credits grant)";

export type Shortage = "out of credit" | "out of budget";

/** The reason why a payer cannot pay any more; null: it can. */
export function shortageOf(ctx: Pick<Ctx, "db" | "clock" | "state">, payer: Payer): Shortage | null {
  if (leftMicros(ctx, payer.workspaceId) <= 0) return "out of credit";
  const budget = tightestBudget(ctx, payer);
  return budget && leftOf(budget) <= 0 ? "out of budget" : null;
}

/** Work that is about to start. `micros`: the least that it needs, by its estimate. */
export type Planned = { ratePerHourMicros: number | null; micros: number };

/**
 * Throws 402 if the workspace's credit or the key's budget has nothing left, or less than `micros`. Free work always
 * passes.
 */
export function mustAfford(ctx: Pick<Ctx, "db" | "clock" | "state">, payer: Payer, planned: Planned) {
  if (!planned.ratePerHourMicros) return;
  const { workspaceId } = payer;
  const { micros } = planned;
  mustKeepBudget(ctx, payer, micros);
  const left = leftMicros(ctx, workspaceId);
  if (left > 0 && left >= micros) return;
  const used = balanceMicros(ctx, workspaceId) - left;
  const [available, needed] = left > 0 ? apart(left, micros) : [dollars(left)];
  const has = `Insufficient credit balance: this workspace has ${available} left${used > 0 ? `, not counting ${dollars(used)} that running jobs and deployments have used` : ""}`;
  throw new AppError(
    "insufficient_credits",
    left > 0 ? `${has}, and this costs about ${needed}: ${FIX}` : `${has}: ${FIX}`,
  );
}

function mustKeepBudget(ctx: Pick<Ctx, "db" | "clock" | "state">, payer: Payer, micros: number) {
  const budget = tightestBudget(ctx, payer);
  if (!budget) return;
  const left = leftOf(budget);
  if (left > 0 && left >= micros) return;
  const { key, budgetMicros, usedMicros } = budget;
  const whose = key.id === payer.keyId ? "This API key" : `The API key ${key.id}, whose budget this key shares,`;
  const needed = left > 0 ? `, and this costs about ${apart(left, micros)[1]}` : "";
  throw new AppError(
    "budget_exceeded",
    `${whose} may spend ${dollars(budgetMicros)} a month (monthly_budget_usd) and has used ${dollars(usedMicros)}${needed}: use another key, or wait until ${isoTime(nextMonthStart(ctx.clock.now()))}`,
  );
}

/** Compares with the balance in the ledger. Use that is not charged yet does not count. */
export function checkBalance(ctx: WithDb, workspaceId: string, estimatedUsd: number) {
  const balance = balanceMicros(ctx, workspaceId);
  if (balance >= microsOf(estimatedUsd))
    return {
      object: "balance_check" as const,
      sufficient: true as const,
      balance_usd: usdOf(balance),
      estimated_cost_usd: estimatedUsd,
    };
  const [available, needed] = apart(balance, microsOf(estimatedUsd));
  const message = `Insufficient credit balance: the balance is ${available}, and ${needed} is needed: ${FIX}`;
  throw new AppError("insufficient_credits", message, { param: "/estimated_cost_usd" });
}

const dollars = (micros: number, digits = 2) => {
  const usd = usdOf(Math.abs(micros));
  const text = usd > 0 && usd < 10 ** -digits ? usd.toFixed(6) : usd.toFixed(digits);
  return `${micros < 0 ? "-" : ""}$${text}`;
};

/** Two amounts, with more digits where they would look the same. */
function apart(a: number, b: number): [string, string] {
  const digits = dollars(a) === dollars(b) ? 6 : 2;
  return [dollars(a, digits), dollars(b, digits)];
}

/** Micro-dollars for an hour of one device; 0: free; null: unknown, and free too. */
export const rateFor = (ctx: Pick<Ctx, "config" | "pricing" | "db">, provider: string, gpuType: string) =>
  cost.rateFor(ctx, provider, gpuType);

export type Grant = { workspaceId: string; usd: number; description?: string | undefined };

/** Credit from the operator. A negative amount takes credit back. */
export function grant(ctx: Ctx, { workspaceId, usd, description }: Grant): EntryRow {
  const amountMicros = microsOf(usd);
  const text = description ?? (usd > 0 ? "Credit granted" : "Credit taken back");
  return write(ctx.db, (tx) => {
    open(ctx, tx, workspaceId);
    mustHold(balanceMicros({ db: tx }, workspaceId) + amountMicros);
    afterCommit(tx, () => ctx.wake("training_jobs.reconcile")); // jobs that are out of credit may go on
    return append(tx, { workspaceId, kind: "grant", amountMicros, description: text }, ctx.clock.now());
  });
}

/** Beyond this, a double cannot hold every micro-dollar. */
function mustHold(micros: number) {
  if (Number.isSafeInteger(micros)) return;
  const most = dollars(Math.sign(micros) * Number.MAX_SAFE_INTEGER);
  throw new AppError("schema", `amount_usd: the balance would be ${dollars(micros)}, and the limit is ${most}`, {
    param: "/amount_usd",
  });
}

export const open = (ctx: Pick<Ctx, "config" | "clock">, tx: Tx, workspaceId: string) =>
  openAccount(tx, workspaceId, microsOf(ctx.config.billing.initial_credit_usd), ctx.clock.now());

/** Called at the start: workspaces that are older than the ledger get their initial credit. */
export const begin = (ctx: Pick<Ctx, "config" | "clock" | "db">) =>
  write(ctx.db, (tx) => {
    for (const workspaceId of unopened(tx)) open(ctx, tx, workspaceId);
  });

export const transactions = (ctx: WithDb, workspaceId: string, query: PageQuery) =>
  page(ctx.db, ledgerEntries, eq(ledgerEntries.workspaceId, workspaceId), query, presentEntry);

export function burnRate(ctx: Pick<Ctx, "db" | "clock" | "state">, workspaceId: string): BurnRate {
  const active = [
    ...runningJobs(ctx, workspaceId).map((meter) => ({ meter, kind: "job" as const })),
    ...servingDeployments(ctx, workspaceId).map((meter) => ({ meter, kind: "deployment" as const })),
    ...liveMachines(ctx, workspaceId).map((meter) => ({ meter, kind: "machine" as const })),
  ];
  const rate = active.reduce((sum, { meter }) => sum + meter.ratePerHourMicros, 0);
  const balance = balanceMicros(ctx, workspaceId);
  const accrued = active.reduce((sum, { meter }) => sum + meter.micros, 0);
  return {
    object: "burn_rate",
    balance_usd: usdOf(balance),
    burn_rate_usd_per_hour: usdOf(rate),
    hours_remaining: rate === 0 ? null : Math.max(0, balance - accrued) / rate,
    active_jobs: active.map(({ meter, kind }) => ({
      object: "active_job",
      job_id: meter.id,
      kind,
      ...presentMeter(meter),
    })),
  };
}
