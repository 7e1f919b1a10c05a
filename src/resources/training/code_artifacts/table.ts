import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const FORMATS = ["tar.gz", "zip"] as const;

export const codeArtifacts = sqliteTable(
  "code_artifacts",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    name: text("name").notNull(),
    format: text("format", { enum: FORMATS }).notNull(),
    sha256: text("sha256").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    fileCount: integer("file_count").notNull(),
    unpackedBytes: integer("unpacked_bytes").notNull(),
    storageKey: text("storage_key").notNull(),
    metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [unique().on(t.workspaceId, t.sha256)],
);
export type CodeArtifactRow = typeof codeArtifacts.$inferSelect;
