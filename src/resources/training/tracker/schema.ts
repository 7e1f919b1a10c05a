import { z } from "zod";
import { DateTime, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { NAME } from "../../access/secrets/schema.ts";
import { TRACKER_TYPES } from "./contract.ts";
import type { IntegrationRow } from "./table.ts";

export const ID = "tracker";

export const TrackerIntegration = later(() =>
  z
    .object({
      object: z.literal("tracker_integration"),
      id: z.literal(ID),
      type: z.enum(TRACKER_TYPES),
      base_url: z.string(),
      project: z.string(),
      secret_name: z.string().nullable(),
      runs: z
        .object({ pending: z.int(), failing: z.int(), given_up: z.int() })
        .describe(
          "Jobs that still have something to report; those of them whose last report failed; jobs whose reporting was given up",
        ),
      last_error: z.object({ message: z.string(), job_id: z.string(), at: DateTime }).nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "TrackerIntegration" }),
);
export type TrackerIntegration = z.infer<typeof TrackerIntegration>;

const BaseUrl = later(() =>
  z
    .string()
    .max(2_000)
    .refine((text) => /^https?:\/\//i.test(text) && URL.canParse(text), "must be an http(s) address")
    .refine((text) => !/[?#]/.test(text), "must not have a query or a fragment")
    .transform((text) => text.replace(/\/+$/, "")),
);

export const PutTracker = later(() =>
  z
    .object({
      type: z.enum(TRACKER_TYPES).default("mlflow"),
      base_url: BaseUrl.describe("Such as https://mlflow.example.com or https://api.wandb.ai"),
      project: Label(200).default("verk").describe("MLflow: the experiment's name. W&B: project or entity/project"),
      secret_name: z
        .string()
        .regex(NAME)
        .nullable()
        .default(null)
        .describe(
          "Name of the secret that holds the key. MLflow takes a token or name:password. null: no key is needed",
        ),
      metadata: Metadata.default({}),
    })
    .meta({ id: "PutTrackerIntegration" }),
);
export type PutTracker = z.infer<typeof PutTracker>;

export const TrackerTest = later(() =>
  z
    .object({
      object: z.literal("tracker_integration.test"),
      ok: z.boolean(),
      latency_ms: z.int(),
      error: z
        .object({ code: z.enum(["denied", "refused", "unavailable"]), message: z.string() })
        .nullable()
        .describe(
          "denied: the key is wrong; refused: the address or project is wrong; unavailable: no good answer came",
        ),
    })
    .meta({ id: "TrackerIntegrationTest" }),
);
export type TrackerTest = z.infer<typeof TrackerTest>;

export const present = (
  row: IntegrationRow,
  status: Pick<TrackerIntegration, "runs" | "last_error">,
): TrackerIntegration => ({
  object: "tracker_integration",
  id: ID,
  type: row.type,
  base_url: row.baseUrl,
  project: row.project,
  secret_name: row.secretName,
  ...status,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});
