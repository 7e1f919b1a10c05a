/** What things cost and what a workspace has left: the sum of its ledger. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { type PageQuery, page } from "../../http/answer/pagination.ts";
import { AppError } from "../../lib/errors.ts";
import { microsOf, usdOf } from "../../lib/money.ts";
import { nextMonthStart } from "../../lib/months.ts";
import { formatDuration, isoTime } from "../../lib/time.ts";
import { afterCommit, type Tx, write } from "../../platform/db/db.ts";
import * as cost from "../cost/service.ts";
import { leftOf, type Payer, spend, tightestBudget } from "./budget.ts";
import { costOf, priceOf } from "./charge.ts";
import { accountOf, append, openAccount, unopened } from "./ledger.ts";
import { type BurnRate, presentEntry, presentMeter } from "./schema.ts";
import { type EntryRow, ledgerEntries, type SUBJECT_KINDS } from "./table.ts";
import { accruedMicros, runningJobs, servingDeployments } from "./usage.ts";

export { costOf };

/** A stretch of use of a job or a deployment. Those of one of them follow each other without gap or overlap. */
export type Usage = Payer & {
  kind: (typeof SUBJECT_KINDS)[number];
  id: string;
  /** What it is called in the ledger. */
  label: string;
  /** Time it was used before this stretch. Only grows, whatever the clock does: it names the stretch. */
  usedMs: number;
  ms: number;
  /** The end of the stretch, by the clock: it says which month pays. */
  until: number;
  /** Micro-dollars for an hour of one of them; null: free. */
  ratePerHourMicros: number | null;
  /** Devices are in the rate; replicas are counted here. */
  count: number;
  /** Left over by the stretch before. */
  remainder: number;
};
export type Bill = Usage & { micros: number };

/** Pure: what the stretch costs and what it leaves over, to go into the row of what was used; then `charge` it. */
export function billFor(usage: Usage): Bill {
  const { ratePerHourMicros, ms, count, remainder } = usage;
  return { ...usage, ...priceOf({ ratePerHourMicros, ms: Math.max(0, ms) * count, remainder }) };
}

/** In the commit that moves the row on, or the stretch is charged again. */
export function charge(tx: Tx, bill: Bill, now: number) {
  const { workspaceId, keyId, kind, id, label, usedMs, ms, ratePerHourMicros, count, micros } = bill;
  if (!ratePerHourMicros || ms <= 0 || count <= 0) return;
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

type Reading = Pick<Ctx, "db">;

export const balanceMicros = ({ db }: Reading, workspaceId: string): number =>
  accountOf(db, { workspaceId })?.balanceMicros ?? 0;

/** The balance less what runs now and is not charged yet. */
export const leftMicros = (ctx: Pick<Ctx, "db" | "clock" | "state">, workspaceId: string): number =>
  balanceMicros(ctx, workspaceId) - accruedMicros(ctx, workspaceId);

const FIX = "have credit granted (verk credits grant)";

export type Shortage = "out of credit" | "out of budget";

/** The reason why a payer cannot go on; null: it can. */
export function shortageOf(ctx: Pick<Ctx, "db" | "clock" | "state">, payer: Payer): Shortage | null {
  if (leftMicros(ctx, payer.workspaceId) <= 0) return "out of credit";
  const budget = tightestBudget(ctx, payer);
  return budget && leftOf(budget) <= 0 ? "out of budget" : null;
}

/** 402 where the workspace's credit or the key's budget has nothing left, or less than `micros`. */
export function mustAfford(ctx: Pick<Ctx, "db" | "clock" | "state">, payer: Payer, micros: number) {
  const { workspaceId } = payer;
  mustKeepBudget(ctx, payer, micros);
  const left = leftMicros(ctx, workspaceId);
  if (left > 0 && left >= micros) return;
  const used = balanceMicros(ctx, workspaceId) - left;
  const [there, needed] = left > 0 ? apart(left, micros) : [dollars(left)];
  const has = `Insufficient credit balance: this workspace has ${there} left${used > 0 ? `, with ${dollars(used)} for what runs now taken off` : ""}`;
  throw new AppError(
    "insufficient_credits",
    left > 0 ? `${has}, and this takes about ${needed}: ${FIX}` : `${has}: ${FIX}`,
  );
}

function mustKeepBudget(ctx: Pick<Ctx, "db" | "clock" | "state">, payer: Payer, micros: number) {
  const budget = tightestBudget(ctx, payer);
  if (!budget) return;
  const left = leftOf(budget);
  if (left > 0 && left >= micros) return;
  const { key, budgetMicros, usedMicros } = budget;
  const whose = key.id === payer.keyId ? "This API key" : `The API key ${key.id}, whose budget this key shares,`;
  const needed = left > 0 ? `, and this takes about ${apart(left, micros)[1]}` : "";
  throw new AppError(
    "budget_exceeded",
    `${whose} may spend ${dollars(budgetMicros)} a month (monthly_budget_usd), ${dollars(usedMicros)} of it are used${needed}: use another key, or wait until ${isoTime(nextMonthStart(ctx.clock.now()))}`,
  );
}

/** Against the balance as the ledger has it. */
export function checkBalance(ctx: Reading, workspaceId: string, estimatedUsd: number) {
  const balance = balanceMicros(ctx, workspaceId);
  if (balance > 0 && balance >= microsOf(estimatedUsd))
    return { sufficient: true as const, balance_usd: usdOf(balance), estimated_cost_usd: estimatedUsd };
  const [there, needed] = apart(balance, microsOf(estimatedUsd));
  const message = `Insufficient credit balance: ${there} is there, and ${needed} is needed: ${FIX}`;
  throw new AppError("insufficient_credits", message, { param: "/estimated_cost_usd" });
}

const dollars = (micros: number, digits = 2) => {
  const usd = usdOf(Math.abs(micros));
  const text = usd > 0 && usd < 10 ** -digits ? usd.toFixed(6) : usd.toFixed(digits);
  return `${micros < 0 ? "-" : ""}$${text}`;
};

/** With as many digits as it takes to tell them apart. */
function apart(a: number, b: number): [string, string] {
  const digits = dollars(a) === dollars(b) ? 6 : 2;
  return [dollars(a, digits), dollars(b, digits)];
}

/** Micro-dollars for an hour of one device; null: free. */
export const rateFor = (ctx: Pick<Ctx, "config" | "pricing" | "db">, provider: string, gpuType: string) =>
  cost.rateFor(ctx, provider, gpuType);

export type Grant = { workspaceId: string; usd: number; description?: string | undefined };

/** Credit by the operator's word; below zero it is taken back. */
export function grant(ctx: Ctx, { workspaceId, usd, description }: Grant): EntryRow {
  const amountMicros = microsOf(usd);
  const words = description ?? (usd > 0 ? "Credit granted" : "Credit taken back");
  return write(ctx.db, (tx) => {
    open(ctx, tx, workspaceId);
    mustHold(balanceMicros({ db: tx }, workspaceId) + amountMicros);
    afterCommit(tx, () => ctx.wake("training_jobs.reconcile")); // what was out of credit goes on
    return append(tx, { workspaceId, kind: "grant", amountMicros, description: words }, ctx.clock.now());
  });
}

/** Beyond, a double does not tell one micro-dollar from the next. */
function mustHold(micros: number) {
  if (Number.isSafeInteger(micros)) return;
  const most = dollars(Math.sign(micros) * Number.MAX_SAFE_INTEGER);
  throw new AppError(
    "schema",
    `amount_usd: the balance would be ${dollars(micros)}, and ${most} is the most there is`,
    {
      param: "/amount_usd",
    },
  );
}

export const open = (ctx: Pick<Ctx, "config" | "clock">, tx: Tx, workspaceId: string) =>
  openAccount(tx, workspaceId, microsOf(ctx.config.billing.initial_credit_usd), ctx.clock.now());

/** At the start: workspaces that were there before the ledger get their first credit. */
export const begin = (ctx: Pick<Ctx, "config" | "clock" | "db">) =>
  write(ctx.db, (tx) => {
    for (const workspaceId of unopened(tx)) open(ctx, tx, workspaceId);
  });

export const transactions = (ctx: Reading, workspaceId: string, query: PageQuery) =>
  page(ctx.db, ledgerEntries, eq(ledgerEntries.workspaceId, workspaceId), query, presentEntry);

export function burnRate(ctx: Pick<Ctx, "db" | "clock" | "state">, workspaceId: string): BurnRate {
  const jobs = runningJobs(ctx, workspaceId);
  const serving = servingDeployments(ctx, workspaceId);
  const rate = [...jobs, ...serving].reduce((sum, { ratePerHourMicros }) => sum + ratePerHourMicros, 0);
  const balance = balanceMicros(ctx, workspaceId);
  const accrued = [...jobs, ...serving].reduce((sum, { micros }) => sum + micros, 0);
  return {
    balance_usd: usdOf(balance),
    burn_rate_usd_per_hour: usdOf(rate),
    hours_remaining: rate === 0 ? null : Math.max(0, balance - accrued) / rate,
    active_jobs: jobs.map((meter) => ({ job_id: meter.id, ...presentMeter(meter) })),
    active_deployments: serving.map((meter) => ({ deployment_id: meter.id, ...presentMeter(meter) })),
  };
}
