import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { trainingJobs } from "../training_jobs/table.ts";

export const publicRunLikes = sqliteTable(
  "public_run_likes",
  {
    jobId: text("job_id")
      .notNull()
      .references(() => trainingJobs.id, { onDelete: "cascade" }),
    client: text("client").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.jobId, t.client] })],
);
