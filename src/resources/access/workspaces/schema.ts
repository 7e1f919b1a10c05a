import { z } from "zod";
import { DateTime, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { STATUSES, type WorkspaceRow } from "./table.ts";

export const Workspace = later(() =>
  z
    .object({
      object: z.literal("workspace"),
      id: z.string(),
      name: z.string(),
      status: z.enum(STATUSES),
      payment_customer_id: z.string(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Workspace" }),
);
export type Workspace = z.infer<typeof Workspace>;

export const CreateWorkspace = later(() =>
  z.object({ name: Label(100), metadata: Metadata.default({}) }).meta({ id: "CreateWorkspace" }),
);
export type CreateWorkspace = z.infer<typeof CreateWorkspace>;

export const UpdateWorkspace = later(() =>
  z.object({ name: Label(100).optional(), metadata: Metadata.optional() }).meta({ id: "UpdateWorkspace" }),
);
export type UpdateWorkspace = z.infer<typeof UpdateWorkspace>;

export const present = (row: WorkspaceRow): Workspace => ({
  object: "workspace",
  id: row.id,
  name: row.name,
  status: row.status,
  payment_customer_id: row.paymentCustomerId,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});
