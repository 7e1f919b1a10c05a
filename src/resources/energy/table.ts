import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** What devices of a type draw at work, over all jobs that had theirs for themselves. */
export const powerReadings = sqliteTable("power_readings", {
  gpuType: text("gpu_type").primaryKey(),
  energyJoules: integer("energy_joules").notNull(),
  /** Of all devices together. */
  workMs: integer("work_ms").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
