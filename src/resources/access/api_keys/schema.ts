import { z } from "zod";
import { SCOPES } from "../../../context.ts";
import { PRIORITIES } from "../../../lib/chat/priority.ts";
import { MICRO_USD, usdOf } from "../../../lib/money.ts";
import { DateTime, isoOrNull, Label, later, Metadata, Notice } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { ApiKeyRow } from "./table.ts";

export const ApiKey = later(() =>
  z
    .object({
      object: z.literal("api_key"),
      id: z.string(),
      name: z.string(),
      key_prefix: z.string(),
      scopes: z.array(z.enum(SCOPES)),
      monthly_budget_usd: z.number().nullable().describe("Limit of spending per calendar month (UTC); null: no limit"),
      spent_this_month_usd: z
        .number()
        .describe("Charges of this calendar month (UTC), by this key and by keys that share its budget"),
      priority: z
        .enum(PRIORITIES)
        .nullable()
        .describe("Default priority of its requests, and the most urgent that they may name; null: normal, and any"),
      metadata: z.record(z.string(), z.string()),
      expires_at: DateTime.nullable(),
      last_used_at: DateTime.nullable().describe("Null before the first use. Written up to 30 seconds after the use"),
      created_at: DateTime,
    })
    .meta({ id: "ApiKey" }),
);
export type ApiKey = z.infer<typeof ApiKey>;

export const CreatedApiKey = later(() =>
  ApiKey.unwrap()
    .extend({
      key: z.string().optional().describe("The whole key. Only the first answer has it, and it is never shown again"),
      notice: Notice,
    })
    .meta({
      id: "CreatedApiKey",
    }),
);

export const CreateApiKey = later(() =>
  z
    .object({
      name: Label(100),
      scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length).default(["*"]),
      expires_at: z.iso
        .datetime({ offset: true })
        .nullable()
        .optional()
        .describe(
          "When the key stops working; left out: after api_keys.life_days; null: never. At most the expiry of the key that creates it",
        ),
      monthly_budget_usd: z
        .number()
        .min(MICRO_USD)
        .max(1e9)
        .nullable()
        .default(null)
        .describe("Limit of spending per calendar month (UTC); null: the budget of the key that creates it"),
      priority: z
        .enum(PRIORITIES)
        .nullish()
        .describe(
          "Default priority of its requests, and the most urgent that they may name; left out: that of the key that creates it",
        ),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateApiKey" }),
);
export type CreateApiKey = z.infer<typeof CreateApiKey>;

export const RotateApiKey = later(() =>
  z
    .object({
      grace_hours: z
        .int()
        .min(0)
        .max(720)
        .default(24)
        .describe("Hours in which the old key still works; 0 revokes it at once"),
    })
    .meta({ id: "RotateApiKey" }),
);

export const present = (row: ApiKeyRow, { spentMicros }: { spentMicros: number }): ApiKey => ({
  object: "api_key",
  id: row.id,
  name: row.name,
  key_prefix: row.prefix,
  scopes: row.scopes,
  monthly_budget_usd: row.monthlyBudgetMicros === null ? null : usdOf(row.monthlyBudgetMicros),
  spent_this_month_usd: usdOf(spentMicros),
  priority: row.priority,
  metadata: row.metadata,
  expires_at: isoOrNull(row.expiresAt),
  last_used_at: isoOrNull(row.lastUsedAt),
  created_at: isoTime(row.createdAt),
});
