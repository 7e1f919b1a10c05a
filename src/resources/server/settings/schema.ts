import { z } from "zod";
import { later } from "../../../lib/schema.ts";
import type { Setting as Loaded } from "../../../platform/config/config.ts";

const Value = z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]);

export const Setting = later(() =>
  z
    .object({
      object: z.literal("setting"),
      name: z.string().describe("For example http.listen"),
      value: Value.describe("The value in force; [redacted] for a secret that is set"),
      default: Value,
      is_default: z.boolean().describe("True if no file, variable or flag sets it"),
      meaning: z.string(),
      source: z.string().describe("default, or the file with its line, the environment variable or the command line"),
    })
    .meta({ id: "Setting" }),
);
export type Setting = z.infer<typeof Setting>;

export const present = ({ path, doc, value, fallback, origin }: Loaded): Setting => ({
  object: "setting",
  name: path,
  value: value as Setting["value"],
  default: fallback as Setting["default"],
  is_default: origin === undefined,
  meaning: doc,
  source: origin ?? "default",
});
