/** POST /completions: text in, text out, no template. */
import { z } from "zod";
import { later } from "../schema.ts";
import { orElse } from "./messages.ts";
import { Fingerprint, samplingFields, Usage } from "./sampling.ts";
import { textsSchema } from "./texts.ts";

const MAX_PROMPTS = 64;
const DEFAULT_TOKENS = 16; // default of the wire format; /chat/completions has none

export const CompletionRequest = z
  .object({
    ...samplingFields,
    prompt: textsSchema({ most: MAX_PROMPTS, minLength: 0 }),
    max_tokens: orElse(z.int().min(1), DEFAULT_TOKENS),
    echo: orElse(z.boolean(), false).describe("Begin the answer with the prompt"),
    logprobs: z.int().min(0).max(5).nullish(),
    suffix: z
      .string()
      .nullish()
      .refine((suffix) => !suffix, "is not supported. Remove it"),
    best_of: z.int().nullish(),
  })
  .superRefine((request, issues) => {
    const refuse = (name: string, message: string) =>
      issues.addIssue({ code: "custom", path: [name], message, input: request });
    if (request.echo && typeof request.logprobs === "number")
      refuse("logprobs", "is not available for the prompt. Remove echo or logprobs");
    if (request.best_of && request.best_of !== request.n) refuse("best_of", "must equal n. Remove it");
  })
  .meta({ id: "CompletionRequest" });
export type CompletionRequest = z.infer<typeof CompletionRequest>;

export const CompletionLogprobs = later(() =>
  z
    .object({
      tokens: z.array(z.string()),
      token_logprobs: z.array(z.number().nullable()),
      top_logprobs: z.array(z.record(z.string(), z.number())).nullable(),
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
        }),
      ),
      usage: Usage.nullable().optional(),
    })
    .meta({ id: "Completion" }),
);
export type Completion = z.infer<typeof Completion>;
