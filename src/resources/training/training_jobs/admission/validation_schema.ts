import { z } from "zod";
import { later } from "../../../../lib/schema.ts";

const Figure = z.number().nullable();

export const JobValidation = later(() =>
  z
    .object({
      object: z.literal("training_job.validation"),
      valid: z.boolean(),
      errors: z.array(z.object({ code: z.string(), message: z.string(), param: z.string().nullable() })),
      warnings: z.array(z.object({ message: z.string(), param: z.string().nullable() })),
      resolved_hyperparameters: z
        .record(z.string(), z.unknown())
        .nullable()
        .describe("Null if they cannot be resolved"),
      estimate: z.object({
        vram_bytes_peak: z.int().nullable(),
        total_steps: z.int().nullable().describe("Steps of the training, also where max_steps is automatic"),
        duration_seconds: Figure.describe("Measured on a first step if possible"),
        cost_usd: Figure,
      }),
      data_resolver_preview: z
        .object({
          rows_in: z.int().describe("Rows that were tried"),
          rows_out: z.int(),
          total_rows: z.int().describe("Rows of the dataset"),
          samples: z
            .array(
              z.object({
                before: z.record(z.string(), z.unknown()),
                after: z.array(z.record(z.string(), z.unknown())),
              }),
            )
            .describe("The first rows, and the rows that the code makes of each"),
        })
        .nullable()
        .describe("The data resolver on the first rows; null without one"),
      rows_preview: z
        .object({
          rows: z.int(),
          measured_rows: z.int().describe("Rows whose tokens were counted, at even distances"),
          tokens: z.int().describe("Tokens of the measured rows in all"),
          max_length: z.int(),
          cut_rows: z.int().describe("Measured rows that are longer than max_length and are cut"),
          dropped_rows: z
            .int()
            .describe("Measured rows that are not used: the template rejects them, or nothing to learn is left"),
          first: z
            .object({
              sequences: z.array(
                z.object({
                  name: z.string().describe("text for sft; chosen and rejected for dpo and orpo"),
                  tokens: z.int(),
                  parts: z.array(z.object({ text: z.string(), tokens: z.int(), trained: z.boolean() })),
                }),
              ),
              error: z.string().nullable(),
            })
            .nullable()
            .describe("The first row as the model reads it; `trained` marks the text that is learned"),
        })
        .nullable()
        .describe("The rows of a method that learns from texts; null for grpo and rloo"),
      reward_preview: z
        .object({
          mean: Figure,
          std: Figure,
          frac_zero_std: Figure.describe(
            "Share of prompts whose completions all scored the same; training learns nothing from these",
          ),
          latency_ms_p50: Figure,
          samples: z.array(
            z.object({
              prompt: z.unknown(),
              completion: z.string(),
              reward: Figure,
              sub_rewards: z.record(z.string(), Figure),
              tokens: z.int(),
              truncated: z.boolean(),
              error: z.string().nullable(),
            }),
          ),
        })
        .nullable()
        .describe("Scores of the real reward on completions of the real model; null if the job has no rewards"),
    })
    .meta({ id: "TrainingJobValidation" }),
);
export type JobValidation = z.infer<typeof JobValidation>;
