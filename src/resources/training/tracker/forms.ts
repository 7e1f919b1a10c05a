/** The answers of trackers. Only the members that are used pass; each has a limit. */
import { z } from "zod";
import { outside } from "../../../lib/json/outside.ts";
import { later } from "../../../lib/schema.ts";
import { MIB } from "../../../lib/units.ts";

const Id = z.string().max(500);
const MOST_METRICS = 20_000;

const RunName = later(() => z.object({ info: z.object({ run_id: Id }) }));
/** `step`: a number, or its digits. */
const Metric = later(() => z.object({ key: Id, step: z.union([z.int(), z.string().max(20)]).optional() }));

export const MLFLOW_EXPERIMENT = outside(
  "MLflow's answer about an experiment",
  later(() =>
    z.object({
      error_code: z.string().max(100).optional(),
      experiment_id: Id.optional(),
      experiment: z.object({ experiment_id: Id }).optional(),
    }),
  ),
);
export const MLFLOW_RUNS = outside(
  "MLflow's answer about runs",
  later(() => z.object({ runs: z.array(RunName).max(10).optional(), run: RunName.optional() })),
);
export const MLFLOW_RUN = outside(
  "MLflow's answer about the metrics of a run",
  later(() =>
    z.object({ run: z.object({ data: z.object({ metrics: z.array(Metric).max(MOST_METRICS).optional() }) }) }),
  ),
  { mostBytes: 4 * MIB, parsing: "thread" },
);
export const WANDB_ANSWER = outside(
  "the answer of Weights & Biases",
  later(() =>
    z.object({
      errors: z
        .array(z.object({ message: z.string().max(100_000) }))
        .max(100)
        .optional(),
      data: z
        .object({
          viewer: z.object({ id: Id.nullish() }).nullish(),
          upsertBucket: z
            .object({
              bucket: z.object({ name: Id, project: z.object({ name: Id, entity: z.object({ name: Id }) }) }),
            })
            .nullish(),
        })
        .nullish(),
    }),
  ),
);
