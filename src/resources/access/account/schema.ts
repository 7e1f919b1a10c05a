import { z } from "zod";
import { SCOPES } from "../../../context.ts";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { ApiKeyRow } from "../api_keys/table.ts";
import { STATUSES, type WorkspaceRow } from "../workspaces/table.ts";

export const Account = later(() =>
  z
    .object({
      object: z.literal("account"),
      id: z.string().describe("The workspace's id"),
      name: z.string(),
      status: z.enum(STATUSES),
      payment_customer_id: z.string(),
      metadata: z.record(z.string(), z.string()),
      key: z
        .object({
          id: z.string(),
          name: z.string(),
          key_prefix: z.string(),
          scopes: z.array(z.enum(SCOPES)),
          expires_at: DateTime.nullable(),
        })
        .describe("The key of this request"),
      created_at: DateTime,
    })
    .meta({ id: "Account" }),
);
export type Account = z.infer<typeof Account>;

export const UpdateAccount = z
  .object({ name: Label(100).optional(), metadata: Metadata.optional() })
  .meta({ id: "UpdateAccount" });

export const present = (workspace: WorkspaceRow, key: ApiKeyRow): Account => ({
  object: "account",
  id: workspace.id,
  name: workspace.name,
  status: workspace.status,
  payment_customer_id: workspace.paymentCustomerId,
  metadata: workspace.metadata,
  key: {
    id: key.id,
    name: key.name,
    key_prefix: key.prefix,
    scopes: key.scopes,
    expires_at: isoOrNull(key.expiresAt),
  },
  created_at: isoTime(workspace.createdAt),
});
