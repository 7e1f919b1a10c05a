/** The routes of Ollama, under /api: requests. */
import { z } from "zod";
import { JsonSchema, orElse } from "../../../lib/chat/messages.ts";
import { MAX_ALTERNATIVES } from "../../../lib/chat/sampling.ts";
import { Label } from "../../../lib/schema.ts";

const MAX_MESSAGES = 10_000;
const MAX_CALLS = 1_024;
const MAX_INPUTS = 2_048;
const MAX_CONTEXT = 300_000;

const knownOptions = {
  num_predict: z.int().min(-2).nullish().describe("Below 0: the rest of the context"),
  temperature: z.number().min(0).max(2).nullish(),
  top_k: z.int().min(0).max(1_000_000).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
};
export const OPTIONS = Object.keys(knownOptions);
/** Other options have no effect, and the answer names them. */
const Options = z.looseObject(knownOptions).nullish().describe("Other options have no effect");
export type Options = z.output<typeof Options>;

const MAX_IMAGES = 64;

const Images = z
  .array(z.string().min(1))
  .max(MAX_IMAGES)
  .nullish()
  .describe("Files in base64, for a model that reads images. Only messages of the user have images");

const shared = {
  model: z.string().min(1).describe("The name of the deployment or agent, also with :latest"),
  stream: orElse(z.boolean(), true).describe("true: one JSON object on each line"),
  format: z
    .union([z.enum(["json", ""]), JsonSchema])
    .nullish()
    .describe("json, or a JSON schema that the answer obeys"),
  options: Options,
  think: z
    .union([z.boolean(), z.enum(["low", "medium", "high"])])
    .nullish()
    .describe("Passed to the model's chat template"),
  logprobs: orElse(z.boolean(), false).describe("true: the answer has the log-probability of each token"),
  top_logprobs: z.int().min(0).max(MAX_ALTERNATIVES).nullish().describe("Alternatives of each token, with logprobs"),
  keep_alive: z
    .union([z.string(), z.number()])
    .nullish()
    .describe("Has no effect: the deployment decides. 0 without a prompt answers unload"),
};

const Call = z.object({
  id: z.string().nullish(),
  function: z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
});

const Message = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: orElse(z.string(), ""),
  thinking: z.string().nullish(),
  images: Images,
  tool_calls: z.array(Call).max(MAX_CALLS).nullish(),
  tool_name: z.string().nullish().describe("The function that a message of a tool answers"),
  tool_call_id: z.string().nullish(),
});
export type Message = z.output<typeof Message>;

const Tool = z.object({
  type: z.literal("function"),
  function: z.object({
    name: z.string(),
    description: z.string().nullish(),
    parameters: JsonSchema.nullish(),
  }),
});

export const OllamaChat = z
  .object({
    ...shared,
    messages: orElse(z.array(Message).max(MAX_MESSAGES), [] as Message[]).describe("Empty: the model is loaded"),
    tools: orElse(z.array(Tool).max(128), [] as z.output<typeof Tool>[]),
  })
  .meta({ id: "OllamaChat" });
export type OllamaChat = z.output<typeof OllamaChat>;

export const OllamaGenerate = z
  .object({
    ...shared,
    prompt: orElse(z.string(), "").describe("Empty: the model is loaded"),
    suffix: z.string().nullish().describe("The text after the answer, for models that fill in the middle"),
    system: z.string().nullish(),
    raw: orElse(z.boolean(), false).describe("true: the prompt is not put into the chat template"),
    images: Images,
    context: z
      .array(z.int().min(0))
      .max(MAX_CONTEXT)
      .nullish()
      .describe("The context of an earlier answer: the new prompt follows it"),
  })
  .meta({ id: "OllamaGenerate" });
export type OllamaGenerate = z.output<typeof OllamaGenerate>;

export const OllamaEmbed = z
  .object({
    model: shared.model,
    input: z.union([z.string(), z.array(z.string()).min(1).max(MAX_INPUTS)]),
    dimensions: z.int().min(1).nullish(),
  })
  .meta({ id: "OllamaEmbed" });

export const OllamaEmbeddings = z.object({ model: shared.model, prompt: z.string() }).meta({ id: "OllamaEmbeddings" });

/** The older field `name` is still what the client of npm sends with some requests. */
const nameFields = <T extends z.ZodType<string>>(model: T) => ({
  model: model.optional(),
  name: model.optional().describe("The older form of model"),
});
type Named = { model?: string | undefined; name?: string | undefined };
export const modelOf = ({ model, name }: Named): string => model ?? name ?? "";
const needsName = (body: Named, issues: z.RefinementCtx<Named>) => {
  if (modelOf(body) === "") issues.addIssue({ code: "custom", path: ["model"], message: "is required: send a text" });
};

export const OllamaShow = z.object(nameFields(shared.model)).superRefine(needsName).meta({ id: "OllamaShow" });

export const OllamaDelete = z.object(nameFields(shared.model)).superRefine(needsName).meta({ id: "OllamaDelete" });

export const OllamaCopy = z.object({ source: shared.model, destination: Label(100) }).meta({ id: "OllamaCopy" });

export const OllamaPull = z
  .object({
    ...nameFields(Label(300).describe("A model of this server, or owner/repo:QUANT of the hub, also after hf.co/")),
    stream: orElse(z.boolean(), true),
  })
  .superRefine(needsName)
  .meta({ id: "OllamaPull" });

export const OllamaPush = z
  .object({
    ...nameFields(Label(300).describe("owner/name: a deployment or a model of this server, and the repository")),
    stream: orElse(z.boolean(), true),
    insecure: z.boolean().nullish().describe("Has no effect"),
  })
  .superRefine(needsName)
  .meta({ id: "OllamaPush" });

export const OllamaCreate = z
  .object({
    model: Label(100).describe("The new name"),
    from: Label(300).describe("A deployment, or a model, adapter or training job of this server"),
    system: z.string().nullish(),
    parameters: Options,
    stream: orElse(z.boolean(), true),
    ...Object.fromEntries(
      ["adapters", "files", "quantize", "template", "messages"].map((name) => [
        name,
        z
          .null({ error: "is not supported. Import the file with `verk models import FILE`, and name it in from" })
          .optional(),
      ]),
    ),
  })
  .meta({ id: "OllamaCreate" });
export type OllamaCreate = z.output<typeof OllamaCreate>;

/** True: a request without a prompt asks to unload the model, as `0`, `"0"` or `"0s"`. */
export const asksToUnload = ({ keep_alive: kept }: { keep_alive?: string | number | null | undefined }): boolean =>
  kept === 0 || (typeof kept === "string" && /^0+(?:\.0+)?(?:ms|s|m|h)?$/.test(kept));
