/** Common fields of /chat/completions and /completions. Absent and null fields get their default here. */
import { z } from "zod";
import { later } from "../schema.ts";
import { orElse } from "./messages.ts";

const MAX_STOPS = 16;
const MAX_STOP_LENGTH = 256;
const MAX_BIASES = 1_024;

const StopText = z.string().min(1).max(MAX_STOP_LENGTH);
const Stop = z.union([StopText, z.array(StopText).max(MAX_STOPS)]);
const LogitBias = z
  .record(z.string().regex(/^\d{1,9}$/, "must be a token id"), z.number().min(-100).max(100))
  .refine((biases) => Object.keys(biases).length <= MAX_BIASES, `must have at most ${MAX_BIASES} tokens`);

export const MAX_SAMPLES = 16;

export const TraceMetadata = z
  .record(z.string(), z.unknown())
  .nullish()
  .describe("Kept with the trace if the deployment captures it. `conversation_id` puts the trace into a conversation");

export const samplingFields = {
  model: z.string().min(1).optional().describe("The name of the deployment. Default: the only one that runs"),
  temperature: orElse(z.number().min(0).max(2), 1).describe("0 always takes the most likely token"),
  top_p: orElse(z.number().min(0).max(1), 1),
  top_k: orElse(z.int().min(-1).max(1_000_000), 0).describe("0 = off"),
  min_p: orElse(z.number().min(0).max(1), 0),
  n: orElse(z.int().min(1).max(MAX_SAMPLES), 1),
  stream: orElse(z.boolean(), false),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  stop: Stop.nullish()
    .transform((stop) => (typeof stop === "string" ? [stop] : (stop ?? [])))
    .describe("Generation stops before the first of these strings; the answer never contains one"),
  seed: z.int().nullish().describe("The same seed gives the same answer, up to rounding differences"),
  frequency_penalty: orElse(z.number().min(-2).max(2), 0),
  presence_penalty: orElse(z.number().min(-2).max(2), 0),
  logit_bias: orElse(LogitBias, {} as Record<string, number>),
  metadata: TraceMetadata,
};

export const Usage = later(() =>
  z
    .object({
      prompt_tokens: z.int(),
      completion_tokens: z.int(),
      total_tokens: z.int(),
      prompt_tokens_details: z.object({ cached_tokens: z.int() }).optional(),
    })
    .meta({ id: "TokenUsage" }),
);
export type Usage = z.infer<typeof Usage>;
