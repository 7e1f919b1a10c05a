import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { EntryRow } from "./table.ts";
import type { Meter } from "./usage.ts";

const Customer = z.string().describe("`payment_customer_id` of GET /v1/account");

export const BalanceQuery = z.object({ payment_customer_id: Customer });
export const TransactionsQuery = PageQuery.extend({ payment_customer_id: Customer });

export const Balance = later(() =>
  z
    .object({ object: z.literal("balance"), payment_customer_id: z.string(), balance_usd: z.number() })
    .meta({ id: "Balance" }),
);

export const Transaction = later(() =>
  z
    .object({
      object: z.literal("transaction"),
      id: z.string(),
      amount_usd: z.number().describe("Negative for charges, positive for credit"),
      description: z.string(),
      created_at: DateTime,
    })
    .meta({ id: "Transaction" }),
);
export const Transactions = later(() =>
  z
    .object({ object: z.literal("list"), items: z.array(Transaction), has_more: z.boolean() })
    .meta({ id: "Transactions" }),
);

const MOST_USD = 1e9;

export const CheckBalance = later(() =>
  z
    .object({
      payment_customer_id: Customer,
      estimated_cost_usd: z.number().min(0).max(MOST_USD),
    })
    .meta({ id: "CheckBalance" }),
);
export const BalanceCheck = later(() =>
  z
    .object({
      object: z.literal("balance_check"),
      sufficient: z.literal(true),
      balance_usd: z.number(),
      estimated_cost_usd: z.number(),
    })
    .meta({ id: "BalanceCheck" }),
);

export const GrantCredit = later(() =>
  z
    .object({
      payment_customer_id: z.string().describe("The customer id of any workspace"),
      amount_usd: z
        .number()
        .min(-MOST_USD)
        .max(MOST_USD)
        .refine((usd) => Math.abs(usd) >= 1e-6, "must be at least a millionth of a dollar")
        .describe("A negative amount takes credit back"),
      description: Label(200).optional(),
    })
    .meta({ id: "GrantCredit" }),
);

const meter = () => ({
  gpu_type: z.string(),
  gpu_count: z.int(),
  provider: z.string(),
  burn_rate_usd_per_hour: z.number(),
  elapsed_seconds: z.number().describe("Running time since its first start, without pauses"),
  accrued_cost_usd: z.number().describe("Cost of that time, charged or not"),
  uncharged_cost_usd: z.number().describe("The part of accrued_cost_usd that the balance does not have yet"),
});
export const BurnRate = later(() =>
  z
    .object({
      object: z.literal("burn_rate"),
      balance_usd: z.number(),
      burn_rate_usd_per_hour: z.number().describe("The sum of active_jobs"),
      hours_remaining: z.number().nullable().describe("Null if nothing that costs money runs"),
      active_jobs: z
        .array(
          z.object({
            object: z.literal("active_job"),
            job_id: z.string().describe("Id of the training job, of the deployment, or of the machine of a cloud"),
            kind: z.enum(["job", "deployment", "machine"]),
            ...meter(),
          }),
        )
        .describe(
          "Running jobs, active deployments and machines of clouds. Work on such a machine has a burn rate of 0, because the machine is charged",
        ),
    })
    .meta({ id: "BurnRate" }),
);
export type BurnRate = z.infer<typeof BurnRate>;

export const presentEntry = (row: EntryRow): z.infer<typeof Transaction> => ({
  object: "transaction",
  id: row.id,
  amount_usd: usdOf(row.amountMicros),
  description: row.description,
  created_at: isoTime(row.createdAt),
});

export const presentMeter = (meter: Meter) => ({
  gpu_type: meter.gpuType,
  gpu_count: meter.gpuCount,
  provider: meter.provider,
  burn_rate_usd_per_hour: usdOf(meter.ratePerHourMicros),
  elapsed_seconds: meter.total.ms / 1000,
  accrued_cost_usd: usdOf(meter.total.micros),
  uncharged_cost_usd: usdOf(meter.micros),
});
