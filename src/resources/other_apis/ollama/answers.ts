/** The routes of Ollama, under /api: answers. */
import { z } from "zod";
import { DateTime, later } from "../../../lib/schema.ts";

const Call = z.object({
  id: z.string().optional(),
  function: z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
});
const Scored = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()) });
const figures = {
  model: z.string(),
  created_at: DateTime,
  done: z.boolean(),
  done_reason: z.enum(["stop", "length", "load", "unload"]).optional(),
  total_duration: z.int().optional().describe("Nanoseconds, as all durations"),
  load_duration: z.int().optional(),
  prompt_eval_count: z.int().optional(),
  prompt_eval_duration: z.int().optional(),
  eval_count: z.int().optional(),
  eval_duration: z.int().optional(),
  logprobs: z.array(Scored.extend({ top_logprobs: z.array(Scored).optional() })).optional(),
};

export const ChatAnswer = later(() =>
  z
    .object({
      ...figures,
      message: z.object({
        role: z.literal("assistant"),
        content: z.string(),
        thinking: z.string().optional(),
        tool_calls: z.array(Call).optional(),
      }),
    })
    .meta({ id: "OllamaChatAnswer" }),
);
export const TextAnswer = later(() =>
  z
    .object({
      ...figures,
      response: z.string(),
      thinking: z.string().optional(),
      context: z.array(z.int()).optional().describe("The tokens of the prompt and the answer, for the next request"),
    })
    .meta({ id: "OllamaTextAnswer" }),
);

export const Embeddings = later(() =>
  z
    .object({
      model: z.string(),
      embeddings: z.array(z.array(z.number())),
      total_duration: z.int(),
      load_duration: z.int(),
      prompt_eval_count: z.int(),
    })
    .meta({ id: "OllamaEmbedAnswer" }),
);
export const Embedding = later(() =>
  z.object({ embedding: z.array(z.number()) }).meta({ id: "OllamaEmbeddingsAnswer" }),
);

const details = z.object({
  parent_model: z.string(),
  format: z.string(),
  family: z.string(),
  families: z.array(z.string()),
  parameter_size: z.string(),
  quantization_level: z.string(),
});
const listed = {
  name: z.string(),
  model: z.string(),
  modified_at: DateTime,
  size: z.int(),
  digest: z.string(),
  details,
};
export const Tags = later(() => z.object({ models: z.array(z.object(listed)) }).meta({ id: "OllamaTags" }));
export const Loaded = later(() =>
  z
    .object({
      models: z.array(
        z.object({
          ...listed,
          expires_at: z.string().describe("Always far away: the deployment decides"),
          size_vram: z.int(),
          context_length: z.int(),
        }),
      ),
    })
    .meta({ id: "OllamaLoaded" }),
);
export const Shown = later(() =>
  z
    .object({
      modelfile: z.string(),
      parameters: z.string(),
      template: z.string().describe("Always empty: GET /props shows the template of a loaded model"),
      details,
      model_info: z.record(z.string(), z.unknown()),
      capabilities: z.array(z.string()),
      modified_at: DateTime,
    })
    .meta({ id: "OllamaShown" }),
);
export const Version = later(() => z.object({ version: z.string() }).meta({ id: "OllamaVersion" }));
export const Progress = later(() =>
  z
    .object({ status: z.string(), total: z.int().optional(), completed: z.int().optional() })
    .meta({ id: "OllamaProgress" }),
);
export const Empty = later(() => z.object({}).meta({ id: "OllamaEmpty" }));
