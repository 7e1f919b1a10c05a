/** Settings of a monitor: each is declared here, and nowhere else. Its column is in the table. */
import { z } from "zod";
import { settings } from "../../../http/settings.ts";
import { Label, Metadata } from "../../../lib/schema.ts";
import { DAY_MS, SECOND_MS } from "../../../lib/units.ts";
import { COMPARISONS, NO_DATA } from "./policy.ts";
import { monitors } from "./table.ts";

const MAX_WINDOW_SECONDS = (30 * DAY_MS) / SECOND_MS;
const seconds = () => z.number().min(1).max(MAX_WINDOW_SECONDS);
const times = () => z.int().min(1).max(1000);
const inMs = {
  toColumn: (seconds: number) => Math.round(seconds * SECOND_MS),
  fromColumn: (ms: number) => ms / SECOND_MS,
};

export const SETTINGS = settings(monitors, {
  name: { input: () => Label(100), answer: () => z.string() },
  window_seconds: { input: () => seconds().default(300), answer: () => z.number(), column: "windowMs", ...inMs },
  reference_window_seconds: {
    input: () => seconds().describe("For drift: the time before the window").default(86_400),
    answer: () => z.number().describe("Length of the window that drift is measured against"),
    column: "referenceMs",
    ...inMs,
  },
  comparison: {
    input: () => z.enum(COMPARISONS).optional().describe("The side of a threshold that is bad. Default: by metric"),
    update: () => z.enum(COMPARISONS),
    answer: () => z.enum(COMPARISONS).describe("The side of a threshold that is bad"),
  },
  evaluations: {
    input: () => times().describe("Evaluations in a row before the severity rises").default(1),
    answer: () => z.int(),
  },
  recovery_evaluations: {
    input: () => times().describe("Evaluations in a row before the severity falls").default(1),
    answer: () => z.int(),
  },
  no_data: {
    input: () => z.enum(NO_DATA).describe("The severity without data").default("no_data"),
    answer: () => z.enum(NO_DATA),
  },
  min_samples: {
    input: () => z.int().min(1).max(1_000_000).describe("Fewer observations in the window count as no data").default(1),
    answer: () => z.int(),
  },
  metadata: { input: () => Metadata.default({}), answer: () => z.record(z.string(), z.string()) },
});
