/** POST /embeddings. */
import { z } from "zod";
import { later } from "../schema.ts";
import { orElse } from "./messages.ts";
import { TraceMetadata, TraceUser } from "./sampling.ts";
import { textsSchema } from "./texts.ts";

const MAX_INPUTS = 2_048;

export const EmbeddingRequest = later(() =>
  z
    .object({
      model: z.string().min(1).optional().describe("The name of the deployment. Default: the only one that runs"),
      input: textsSchema({ most: MAX_INPUTS, minLength: 0 }),
      encoding_format: orElse(z.enum(["float", "base64"]), "float" as const).describe(
        "base64 encodes little-endian float32 values",
      ),
      metadata: TraceMetadata,
      user: TraceUser,
      dimensions: z.int().min(1).nullish().describe("Shortens the vectors to this many numbers, of length 1 again"),
    })
    .meta({ id: "EmbeddingRequest" }),
);
export type EmbeddingRequest = z.infer<typeof EmbeddingRequest>;

export const EmbeddingList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(
        z.object({
          object: z.literal("embedding"),
          index: z.int(),
          embedding: z.union([z.array(z.number()), z.string()]),
        }),
      ),
      model: z.string(),
      usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
    })
    .meta({ id: "EmbeddingList" }),
);
export type EmbeddingList = z.infer<typeof EmbeddingList>;
