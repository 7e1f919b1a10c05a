import type { z } from "zod";
import type * as views from "../../../resources/training/training_jobs/views/schema.ts";

export type { JobValidation } from "../../../resources/training/training_jobs/admission/validation_schema.ts";
export type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
export type { JobMetrics } from "../../../resources/training/training_jobs/views/schema.ts";
export type JobEvent = z.infer<typeof views.JobEvent>;
export type JobSample = z.infer<typeof views.JobSample>;
export type JobCheckpoint = z.infer<typeof views.JobCheckpoint>;

/** The metrics of one step. */
export type Point = views.JobMetrics["data"][number];

export const jobPath = (id: string) => `/v1/training_jobs/${encodeURIComponent(id)}`;
