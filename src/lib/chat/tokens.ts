/** Requests about tokens, in the format of llama.cpp: /tokenize, /detokenize and /apply-template. */
import { z } from "zod";
import { later } from "../schema.ts";
import { orElse } from "./messages.ts";

const MAX_TOKENS = 300_000;
const model = z.string().min(1).optional().describe("The name of the deployment. Default: the only one that runs");

export const TokenizeRequest = z
  .object({
    model,
    content: z.string(),
    add_special: orElse(z.boolean(), false).describe("Begin with the token that begins every text of this model"),
    parse_special: orElse(z.boolean(), true).describe("Read names of control tokens as such"),
    with_pieces: orElse(z.boolean(), false).describe("Return the text of each token too"),
  })
  .meta({ id: "TokenizeRequest" });
export type TokenizeRequest = z.infer<typeof TokenizeRequest>;

export const TokenizedText = later(() =>
  z
    .object({ tokens: z.array(z.union([z.int(), z.object({ id: z.int(), piece: z.string() })])) })
    .meta({ id: "TokenizedText" }),
);

/**
 * Exact tokens for the beginning of a prompt, which a rollout sends to the model's process: no client can send them. They
 * stand for the first `messages` of the conversation, the last of which is an answer of the model.
 */
export type TokenPrefix = {
  /** Base64 of 32-bit integers. */
  tokens: string;
  messages: number;
  /** The last token is an end token. */
  has_end: boolean;
  stop: string | null;
};

export const DetokenizeRequest = z
  .object({
    model,
    tokens: z.array(z.int().min(0)).max(MAX_TOKENS),
    with_pieces: orElse(z.boolean(), false).describe("Return the text of each token too"),
  })
  .meta({ id: "DetokenizeRequest" });
export type DetokenizeRequest = z.infer<typeof DetokenizeRequest>;

export const DetokenizedText = later(() =>
  z
    .object({
      content: z.string(),
      pieces: z
        .array(z.string())
        .optional()
        .describe("With with_pieces: one for each token. A character of several tokens is in the last of them"),
    })
    .meta({ id: "DetokenizedText" }),
);

export const RenderedPrompt = later(() =>
  z
    .object({
      prompt: z.string().describe("The text that the model reads"),
      input_tokens: z.int(),
      tokens: z.array(z.int()).optional().describe("With verbose: the tokens"),
    })
    .meta({ id: "RenderedPrompt" }),
);
