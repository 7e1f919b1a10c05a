import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import type { NodeInfo } from "../../../platform/providers/protocol.ts";
import type { SlurmSettings } from "../../../platform/providers/slurm_text.ts";
import { workspaces } from "../../access/workspaces/table.ts";

/** The kinds that a caller can add. */
export const ADDED_KINDS = ["ssh", "slurm"] as const;
/** `exec`: commands of the operator make its machines. The server adds it, under the name of its cloud. */
export const KINDS = [...ADDED_KINDS, "exec"] as const;

/** True for the provider of a region of kind `exec`, which is the name of its cloud. */
export const isCloud = (provider: string): boolean => !["local", ...ADDED_KINDS].includes(provider);

export const regions = sqliteTable(
  "regions",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    name: text("name").notNull(),
    kind: text("kind", { enum: KINDS }).notNull(),
    /** Empty: this machine is the login node; of kind `exec`: there is no machine now. */
    address: text("address").notNull(),
    port: integer("port").notNull(),
    user: text("user").notNull(),
    sshKeyId: text("ssh_key_id").notNull(),
    workDir: text("work_dir").notNull(),
    /** Type and base64. Another key is refused. */
    hostKey: text("host_key").notNull(),
    /** Null for a region of kind ssh. */
    slurm: text("slurm", { mode: "json" }).$type<SlurmSettings>(),
    /** For an hour of one device. Null: no price. */
    rateMicros: integer("rate_micros"),
    /** The last answer of the node. */
    info: text("info", { mode: "json" }).$type<NodeInfo>(),
    seenAt: integer("seen_at"),
    /** Why it cannot be used now. */
    fault: text("fault"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [unique().on(t.workspaceId, t.name)],
);
export type RegionRow = typeof regions.$inferSelect;
