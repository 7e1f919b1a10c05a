import { z } from "zod";
import { DateTime, isoOrNull, later } from "../../../lib/schema.ts";
import { DASHBOARD, type Setting as Loaded } from "../../../platform/config/config.ts";

const Value = z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]);
const SET_BY = ["default", "file", "environment", "command_line", "dashboard"] as const;

export const Setting = later(() =>
  z
    .object({
      object: z.literal("setting"),
      name: z.string().describe("For example http.listen"),
      value: Value.describe("The value in force; [redacted] for a secret that is set"),
      default: Value,
      is_default: z.boolean().describe("True if no file, variable, flag or change sets it"),
      meaning: z.string(),
      source: z.string().describe("default, or the file with its line, the environment variable or the command line"),
      set_by: z.enum(SET_BY).describe("The kind of the source"),
      variable: z.string().describe("The environment variable that sets it"),
      needs_restart: z.boolean().describe("False: PATCH changes it while the server runs"),
      changed_at: DateTime.nullable().describe("Time of a change by PATCH; null if there is none"),
    })
    .meta({ id: "Setting" }),
);
export type Setting = z.infer<typeof Setting>;

export const ChangeSetting = later(() =>
  z.object({ value: Value.nullable().describe("null brings the default back") }).meta({ id: "ChangeSetting" }),
);

export const present = (
  { path, env, doc, live, value, fallback, origin }: Loaded,
  changedAt: number | undefined,
): Setting => ({
  object: "setting",
  name: path,
  value: value as Setting["value"],
  default: fallback as Setting["default"],
  is_default: origin === undefined,
  meaning: doc,
  source: origin ?? "default",
  set_by: setBy(origin),
  variable: env,
  needs_restart: !live,
  changed_at: isoOrNull(changedAt ?? null),
});

function setBy(origin: string | undefined): Setting["set_by"] {
  if (origin === undefined) return "default";
  if (origin === DASHBOARD) return "dashboard";
  if (origin === "the command line") return "command_line";
  return origin.startsWith("the environment") ? "environment" : "file";
}
