/** The native routes of llama.cpp's server. */
import { z } from "zod";
import { orElse } from "../../../lib/chat/messages.ts";
import { MAX_ALTERNATIVES, MaxTokens, samplingFields, Timings } from "../../../lib/chat/sampling.ts";
import { later } from "../../../lib/schema.ts";

const { n: _one, n_probs: _probabilities, stream: _stream, ...sampling } = samplingFields();
const shared = {
  ...sampling,
  stream: orElse(z.boolean(), false),
  n_predict: MaxTokens.describe("Default: the rest of the context"),
  max_tokens: MaxTokens.describe("The same as n_predict"),
  n_probs: z.int().min(0).max(MAX_ALTERNATIVES).nullish(),
};

export const NativeCompletion = z
  .object({ ...shared, prompt: z.union([z.string(), z.array(z.int().min(0)).min(1)]) })
  .meta({ id: "NativeCompletionRequest" });
export type NativeCompletion = z.output<typeof NativeCompletion>;

export const Infill = z
  .object({
    ...shared,
    input_prefix: z.string(),
    input_suffix: z.string(),
    prompt: z.string().nullish().describe("Text after input_prefix"),
    input_extra: z
      .array(z.object({ filename: z.string().nullish(), text: z.string() }))
      .max(64)
      .nullish()
      .describe("Further files, placed before input_prefix"),
  })
  .meta({ id: "InfillRequest" });
export type Infill = z.output<typeof Infill>;

const Probability = z.object({ token: z.string(), logprob: z.number().nullable() });

export const NativeAnswer = later(() =>
  z
    .object({
      content: z.string(),
      stop: z.boolean(),
      stop_type: z.enum(["eos", "limit"]).optional(),
      model: z.string(),
      tokens_evaluated: z.int().optional(),
      tokens_predicted: z.int().optional(),
      tokens_cached: z.int().optional(),
      truncated: z.literal(false).optional(),
      completion_probabilities: z
        .array(Probability.extend({ top_logprobs: z.array(Probability) }))
        .optional()
        .describe("With n_probs"),
      timings: Timings.optional(),
    })
    .meta({ id: "NativeCompletion" }),
);
export type NativeAnswer = z.infer<typeof NativeAnswer>;

export const Props = later(() =>
  z
    .object({
      default_generation_settings: z.object({ n_ctx: z.int() }),
      total_slots: z.int(),
      model_path: z.string().describe("The name of the deployment"),
      model_alias: z.string(),
      chat_template: z.string(),
      bos_token: z.string(),
      eos_token: z.string(),
      build_info: z.string(),
      modalities: z.object({ vision: z.boolean().describe("The model reads images"), audio: z.literal(false) }),
    })
    .meta({ id: "LlamaProps" }),
);

export const Slots = later(() =>
  z
    .array(z.object({ id: z.int(), n_ctx: z.int(), is_processing: z.boolean() }))
    .describe("One entry for each place of a running replica"),
);

export const LoraAdapters = later(() =>
  z.array(
    z.object({
      id: z.int().describe("Number in the list, which is ordered by name"),
      path: z.string().describe("The name of the adapter"),
      scale: z.number(),
    }),
  ),
);
