import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Power of devices at work, by type, summed over all jobs that had their devices to themselves. */
export const powerReadings = sqliteTable("power_readings", {
  gpuType: text("gpu_type").primaryKey(),
  energyJoules: integer("energy_joules").notNull(),
  /** Sum over all devices. */
  workMs: integer("work_ms").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
