/** The routes of Google's Gemini API, under /v1beta/models. */
import { z } from "zod";
import { JsonSchema, orElse } from "../../../lib/chat/messages.ts";
import { MAX_SAMPLES } from "../../../lib/chat/sampling.ts";
import { later, numberText } from "../../../lib/schema.ts";

const MAX_CONTENTS = 10_000;
const MAX_PARTS = 4_096;
const MAX_TOOLS = 128;
const MAX_INPUTS = 2_048;
const MAX_LISTED = 1_000;

const Values = z.record(z.string(), z.unknown());
const PART = "must have text, inlineData, functionCall or functionResponse: this server reads and runs nothing else";

const Part = z
  .object({
    text: z.string().nullish(),
    thought: z.boolean().nullish().describe("true: `text` is a thought of the model"),
    inlineData: z
      .object({ mimeType: z.string().max(100).nullish(), data: z.string().min(1).describe("An image in base64") })
      .nullish(),
    functionCall: z.object({ id: z.string().nullish(), name: z.string(), args: Values.nullish() }).nullish(),
    functionResponse: z.object({ id: z.string().nullish(), name: z.string(), response: Values }).nullish(),
    thoughtSignature: z.string().nullish().describe("Has no effect"),
  })
  .refine((part) => Object.values(part).some((value) => value !== null && value !== undefined), PART);
export type Part = z.output<typeof Part>;

const Content = z
  .object({
    role: z.enum(["user", "model", "function", "system"]).nullish().describe("Default: user"),
    parts: orElse(z.array(Part).max(MAX_PARTS), [] as Part[]),
  })
  .meta({ id: "GoogleContent" });
export type Content = z.output<typeof Content>;

/** A schema of OpenAPI 3.0, as Google writes it: types in capitals, and numbers also as texts. */
const GoogleSchema = JsonSchema.describe("A schema with types in capitals, as Google writes it");

const Tool = z
  .object({
    functionDeclarations: z
      .array(
        z.object({
          name: z.string(),
          description: z.string().nullish(),
          parameters: GoogleSchema.nullish(),
          parametersJsonSchema: JsonSchema.nullish(),
        }),
      )
      .max(MAX_TOOLS)
      .nullish()
      .describe("Tools that Google runs have no effect, and the header warning names them"),
  })
  .meta({ id: "GoogleTool" });

const GenerationConfig = z
  .object({
    temperature: z.number().min(0).max(2).nullish(),
    topP: z.number().min(0).max(1).nullish(),
    topK: z.int().min(0).nullish(),
    seed: z.int().nullish(),
    candidateCount: z.int().min(1).max(MAX_SAMPLES).nullish(),
    maxOutputTokens: z.int().min(0).nullish().describe("Default: the rest of the context"),
    stopSequences: z.array(z.string().min(1)).max(16).nullish(),
    presencePenalty: z.number().min(-2).max(2).nullish(),
    frequencyPenalty: z.number().min(-2).max(2).nullish(),
    responseMimeType: z
      .enum(["text/plain", "application/json", "text/x.enum"])
      .nullish()
      .describe("application/json: a JSON value that obeys the schema. text/x.enum: one of the texts of its `enum`"),
    responseSchema: GoogleSchema.nullish().describe("The answer obeys the schema"),
    responseJsonSchema: JsonSchema.nullish().describe("The same as a JSON schema"),
    thinkingConfig: z
      .object({
        includeThoughts: z.boolean().nullish().describe("true: the answer has the thoughts of the model as parts"),
        thinkingBudget: z.int().nullish().describe("0 asks the model not to think. Other numbers have no effect"),
        thinkingLevel: z
          .string()
          .max(20)
          .nullish()
          .describe("Passed to the model's chat template as reasoning_effort, in small letters"),
      })
      .nullish(),
  })
  .meta({ id: "GoogleGenerationConfig" });

const prompt = {
  contents: z.array(Content).min(1).max(MAX_CONTENTS),
  systemInstruction: Content.nullish(),
  tools: orElse(z.array(Tool).max(MAX_TOOLS), [] as z.output<typeof Tool>[]),
  toolConfig: z
    .object({
      functionCallingConfig: z
        .object({
          mode: z
            .enum(["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"])
            .nullish()
            .describe("ANY: the model must call a function"),
          allowedFunctionNames: z.array(z.string()).max(MAX_TOOLS).nullish().describe("The model sees these alone"),
        })
        .nullish(),
    })
    .nullish(),
  generationConfig: GenerationConfig.nullish(),
  cachedContent: z
    .null({ error: "must be absent: contents are not stored. Send all of them with each request" })
    .optional(),
};

export const GenerateContentRequest = z.object(prompt).meta({ id: "GoogleGenerateRequest" });
export type GenerateContentRequest = z.output<typeof GenerateContentRequest>;

export const GoogleCountRequest = z
  .object({ ...prompt, contents: prompt.contents.nullish(), generateContentRequest: GenerateContentRequest.nullish() })
  .refine(({ contents, generateContentRequest }) => contents ?? generateContentRequest, {
    path: ["contents"],
    message: "is required: send a list of contents",
  })
  .meta({ id: "GoogleCountRequest" });
export type GoogleCountRequest = z.output<typeof GoogleCountRequest>;

export const GoogleEmbedRequest = z
  .object({
    content: Content,
    outputDimensionality: z.int().min(1).nullish().describe("Shortens the vector to this many numbers"),
  })
  .meta({ id: "GoogleEmbedRequest" });
export const GoogleBatchEmbedRequest = z
  .object({
    requests: z
      .array(GoogleEmbedRequest.extend({ model: z.string().nullish().describe("The model of the path counts") }))
      .min(1)
      .max(MAX_INPUTS),
  })
  .refine(({ requests }) => new Set(requests.map((each) => each.outputDimensionality ?? 0)).size === 1, {
    path: ["requests"],
    message: "must all have the same outputDimensionality",
  })
  .meta({ id: "GoogleBatchEmbedRequest" });

export const StreamQuery = z.object({
  alt: z
    .literal("sse", { error: 'must be "sse": answers are streamed as server-sent events only' })
    .optional()
    .describe("Streams are always server-sent events"),
});

export const ListQuery = z.object({
  pageSize: numberText(z.int().min(1).max(MAX_LISTED)).default(50).describe("How many models at most"),
  pageToken: z.string().optional().describe("nextPageToken of the page before"),
});

const AnswerPart = z.object({
  text: z.string().optional(),
  thought: z.literal(true).optional(),
  functionCall: z.object({ id: z.string(), name: z.string(), args: Values }).optional(),
});
export type AnswerPart = z.infer<typeof AnswerPart>;

export const GenerateContentAnswer = later(() =>
  z
    .object({
      candidates: z.array(
        z.object({
          content: z.object({ role: z.literal("model"), parts: z.array(AnswerPart) }),
          finishReason: z.enum(["STOP", "MAX_TOKENS"]).optional(),
          index: z.int(),
        }),
      ),
      usageMetadata: z
        .object({
          promptTokenCount: z.int(),
          candidatesTokenCount: z.int().describe("Without thoughts"),
          thoughtsTokenCount: z.int(),
          cachedContentTokenCount: z.int().describe("Tokens of the prompt that were in the cache"),
          totalTokenCount: z.int(),
        })
        .optional(),
      modelVersion: z.string(),
      responseId: z.string(),
    })
    .meta({ id: "GoogleGenerateAnswer" }),
);
export type GenerateContentAnswer = z.infer<typeof GenerateContentAnswer>;

export const GoogleCount = later(() => z.object({ totalTokens: z.int() }).meta({ id: "GoogleCount" }));

const Embedding = z.object({ values: z.array(z.number()) });
export const GoogleEmbedding = later(() => z.object({ embedding: Embedding }).meta({ id: "GoogleEmbedding" }));
export const GoogleEmbeddings = later(() =>
  z.object({ embeddings: z.array(Embedding) }).meta({ id: "GoogleEmbeddings" }),
);

export const GoogleModel = later(() =>
  z
    .object({
      name: z.string().describe("models/ and the name of a deployment or agent"),
      version: z.string(),
      displayName: z.string(),
      description: z.string(),
      inputTokenLimit: z.int(),
      outputTokenLimit: z.int(),
      supportedGenerationMethods: z.array(z.string()),
    })
    .meta({ id: "GoogleModel" }),
);
export const GoogleModels = later(() =>
  z.object({ models: z.array(GoogleModel), nextPageToken: z.string().optional() }).meta({ id: "GoogleModelList" }),
);
