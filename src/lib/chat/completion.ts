/** POST /completions: text in, text out, no template. */
import { z } from "zod";
import { later } from "../schema.ts";
import { orElse } from "./messages.ts";
import {
  checkSampling,
  Fingerprint,
  MAX_SAMPLES,
  MaxTokens,
  PromptTokenIds,
  type Refuse,
  returnsTokenIds,
  samplingFields,
  Timings,
  TokenIds,
  tokenLimit,
  Usage,
} from "./sampling.ts";
import { textsSchema } from "./texts.ts";

const MAX_PROMPTS = 64;
const MAX_ANSWERS = 1_024; // of one request
const DEFAULT_TOKENS = 16; // default of the wire format; /chat/completions has none

export const CompletionRequest = later(() =>
  z
    .object({
      ...samplingFields(),
      prompt: textsSchema({ most: MAX_PROMPTS, minLength: 0 }),
      max_tokens: MaxTokens.describe(`Default: ${DEFAULT_TOKENS}. -1: the rest of the context`),
      echo: orElse(z.boolean(), false).describe("Begin the answer with the prompt"),
      logprobs: z.int().min(0).max(5).nullish().describe("With echo: also of the prompt"),
      return_token_ids: returnsTokenIds(),
      suffix: z.string().nullish().describe("The text after the answer, for models that fill in the middle"),
      best_of: z
        .int()
        .min(1)
        .max(MAX_SAMPLES)
        .nullish()
        .describe("Generates this many answers and returns the n likeliest"),
    })
    .superRefine((request, issues) => {
      const refuse: Refuse = (path, message) => issues.addIssue({ code: "custom", path, message, input: request });
      checkSampling(request, refuse);
      const { best_of: best, n } = request;
      if (best && best < n) refuse(["best_of"], `must be at least n, which is ${n}`);
      if (best && best > n && request.stream) refuse(["best_of"], "cannot be streamed. Remove stream or best_of");
      const prompts =
        Array.isArray(request.prompt) && typeof request.prompt[0] !== "number" ? request.prompt.length : 1;
      if (prompts * Math.max(n, best ?? 1) > MAX_ANSWERS)
        refuse([best ? "best_of" : "n"], `times the number of prompts must be at most ${MAX_ANSWERS}`);
      if (request.suffix && request.echo) refuse(["suffix"], "cannot be combined with echo. Remove one of them");
    })
    .meta({ id: "CompletionRequest" }),
);
export type CompletionRequest = z.infer<typeof CompletionRequest>;

/** The number of tokens to generate. Undefined: the rest of the context. */
export const completionLimit = ({ max_tokens, n_predict }: Pick<CompletionRequest, "max_tokens" | "n_predict">) =>
  tokenLimit(max_tokens, n_predict, DEFAULT_TOKENS);

export const CompletionLogprobs = later(() =>
  z
    .object({
      tokens: z.array(z.string()),
      token_logprobs: z.array(z.number().nullable()),
      top_logprobs: z.array(z.record(z.string(), z.number()).nullable()).nullable(),
      text_offset: z.array(z.int()),
    })
    .meta({ id: "CompletionLogprobs" }),
);
export type CompletionLogprobs = z.infer<typeof CompletionLogprobs>;

export const Completion = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("text_completion"),
      created: z.int().describe("Unix seconds"),
      model: z.string(),
      system_fingerprint: Fingerprint,
      choices: z.array(
        z.object({
          index: z.int(),
          text: z.string(),
          logprobs: CompletionLogprobs.nullable(),
          finish_reason: z.enum(["stop", "length"]).nullable().describe("null while the answer streams"),
          prompt_token_ids: PromptTokenIds.optional(),
          token_ids: TokenIds.optional(),
        }),
      ),
      usage: Usage.nullable().optional(),
      timings: Timings.optional(),
    })
    .meta({ id: "Completion" }),
);
export type Completion = z.infer<typeof Completion>;
