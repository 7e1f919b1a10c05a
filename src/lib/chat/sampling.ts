/** Common fields of /chat/completions and /completions. Absent and null fields get their default here. */
import { z } from "zod";
import { later } from "../schema.ts";
import { constraintFields, constraintsOf, fieldName } from "./constraints.ts";
import { orElse } from "./messages.ts";
import { PRIORITIES } from "./priority.ts";

const MAX_STOPS = 16;
const MAX_STOP_LENGTH = 256;
const MAX_BIASES = 1_024;
const TOKEN_ID = /^\d{1,9}$/;

const stopText = () => z.string().min(1).max(MAX_STOP_LENGTH);
const stop = () => z.union([stopText(), z.array(stopText()).max(MAX_STOPS)]);
const logitBias = () =>
  z
    .record(z.string(), z.number().min(-100).max(100))
    .refine((biases) => Object.keys(biases).length <= MAX_BIASES, `must have at most ${MAX_BIASES} tokens`)
    .superRefine((biases, issues) => {
      const word = Object.keys(biases).find((name) => !TOKEN_ID.test(name));
      const message = "is not the number of a token. POST /tokenize gives the numbers of a text";
      if (word !== undefined) issues.addIssue({ code: "custom", path: [word], message });
    })
    .describe("Numbers of tokens with what is added to their logits");

export const MAX_SAMPLES = 128;

export const MAX_ALTERNATIVES = 20;

/** -1 means the rest of the context, as null does. 0 reads the prompt and generates nothing. */
export const MaxTokens = z.int().min(-1).nullish();

/** The number of tokens to generate. Undefined: the rest of the context. */
export const tokenLimit = (...limits: readonly (number | null | undefined)[]): number | undefined => {
  const first = limits.find((limit) => typeof limit === "number");
  return first === undefined || first < 0 ? undefined : first;
};

export const TraceMetadata = z
  .record(z.string(), z.unknown())
  .nullish()
  .describe(
    "Kept with the trace if the deployment captures it. `conversation_id` puts the trace into a conversation, and `tags` (a list, or a text with commas) are counted by GET /v1/traces/facets",
  );

export const TraceUser = z
  .string()
  .max(1_000)
  .nullish()
  .describe("Who sends the request, by any name. Kept with the trace if the deployment captures it");

const MAX_LORAS = 8;

/** Adapters of the deployment's base model, by name, id, or number in GET /lora-adapters. */
const lora = () =>
  z
    .array(
      z.object({ id: z.union([z.string().min(1), z.int().min(0)]), scale: orElse(z.number().min(-100).max(100), 1) }),
    )
    .max(MAX_LORAS)
    .nullish()
    .describe(
      "Adapters that this request uses, by name, id or number in GET /lora-adapters. They replace the adapter of the deployment",
    );

export const samplingFields = () => ({
  model: z
    .string()
    .min(1)
    .optional()
    .describe("The name of the deployment, or deployment:adapter. Default: the only one that runs"),
  lora: lora(),
  temperature: orElse(z.number().min(0).max(2), 1).describe("0 always takes the most likely token"),
  top_p: orElse(z.number().min(0).max(1), 1),
  top_k: orElse(z.int().min(-1).max(1_000_000), 0).describe("0 = off"),
  min_p: orElse(z.number().min(0).max(1), 0),
  n: orElse(z.int().min(1).max(MAX_SAMPLES), 1),
  stream: orElse(z.boolean(), false),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  stop: stop()
    .nullish()
    .transform((stop) => (typeof stop === "string" ? [stop] : (stop ?? [])))
    .describe("Generation stops before the first of these strings; the answer never contains one"),
  seed: z
    .number()
    .refine(Number.isInteger, "must be a whole number")
    .nullish()
    .describe("The same seed gives the same answer, up to rounding differences"),
  frequency_penalty: orElse(z.number().min(-2).max(2), 0),
  presence_penalty: orElse(z.number().min(-2).max(2), 0),
  logit_bias: orElse(logitBias(), {} as Record<string, number>),
  n_predict: MaxTokens.describe("max_tokens as llama.cpp names it"),
  n_probs: z.int().min(0).max(MAX_ALTERNATIVES).nullish().describe("Log-probabilities with this many alternatives"),
  ...constraintFields(),
  ignore_eos: orElse(z.boolean(), false).describe("true: the answer goes on to max_tokens, for benchmarks"),
  cache_prompt: orElse(z.boolean(), true).describe(
    "false: the whole prompt is read, also where the cache has its start",
  ),
  priority: z
    .enum(PRIORITIES)
    .nullish()
    .describe("A request takes the place of one with a lower priority, which goes on later. Default: normal"),
  timings_per_token: orElse(z.boolean(), false).describe("Every part of a stream has timings, except the first"),
  return_progress: orElse(z.boolean(), false).describe("A stream begins with the progress of reading the prompt"),
  metadata: TraceMetadata,
  user: TraceUser,
});

/** The field has the name that vLLM gives it. */
export const returnsTokenIds = () =>
  orElse(z.boolean(), false).describe(
    "true: the answer has prompt_token_ids, and each choice the token_ids drawn for it",
  );

export const TokenIds = later(() =>
  z
    .array(z.int())
    .describe("With return_token_ids: every token that was drawn, also the end token and those of a stop string"),
);
export const PromptTokenIds = later(() =>
  z
    .array(z.int())
    .describe("With return_token_ids: the tokens that the model read. Numbers below 0 stand for an image"),
);

export const Fingerprint = z
  .string()
  .nullish()
  .describe("Id of the model that answered. With an adapter: the id of its base model, +, and the id of the adapter");

export const Usage = later(() =>
  z
    .object({
      prompt_tokens: z.int(),
      completion_tokens: z.int(),
      total_tokens: z.int(),
      prompt_tokens_details: z.object({ cached_tokens: z.int() }).optional(),
      completion_tokens_details: z
        .object({
          reasoning_tokens: z.int().describe("Tokens of thoughts that were kept apart from the answer"),
          audio_tokens: z.literal(0),
          accepted_prediction_tokens: z.literal(0),
          rejected_prediction_tokens: z.literal(0),
        })
        .optional(),
    })
    .meta({ id: "TokenUsage" }),
);
export type Usage = z.infer<typeof Usage>;

/** Times of one request, as llama.cpp reports them. */
export const Timings = later(() =>
  z
    .object({
      cache_n: z.int().describe("Tokens of the prompt that were in the cache"),
      prompt_n: z.int().describe("Tokens of the prompt that were read"),
      prompt_ms: z.number(),
      prompt_per_token_ms: z.number(),
      prompt_per_second: z.number(),
      predicted_n: z.int().describe("Tokens generated"),
      predicted_ms: z.number(),
      predicted_per_token_ms: z.number(),
      predicted_per_second: z.number(),
    })
    .meta({ id: "InferenceTimings" }),
);
export type Timings = z.infer<typeof Timings>;

/** A stop string, log-probabilities and the like need no check between fields. These do. */
type Constrained = Parameters<typeof constraintsOf>[0] & {
  stream: boolean;
  stream_options?: object | null | undefined;
};
export type Refuse = (path: string[], message: string) => void;

export function checkSampling({ stream, stream_options, ...request }: Constrained, refuse: Refuse) {
  const [first, second] = constraintsOf(request);
  if (first && second)
    refuse(first.at.slice(1).split("/"), `cannot be combined with ${fieldName(second)}. Remove one of them`);
  if (stream_options && !stream) refuse(["stream_options"], "needs stream: true");
}
