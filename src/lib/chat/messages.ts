/** Messages and tools of the chat wire format, as clients send them. */
import { z } from "zod";
import { later } from "../schema.ts";
import { nearest } from "../text/nearest.ts";

/** A missing field and null both mean the default. */
export const orElse = <T extends z.ZodType, D>(schema: T, value: D) =>
  schema.nullish().transform((field) => field ?? value);

const NOT_TEXT = 'must be "text": only messages of the user have images, and no message has sounds';
const NOT_READ = 'must be "text" or "image_url": sounds and files are not supported';

const TextPart = later(() =>
  z.object({ type: z.literal("text", { error: NOT_TEXT }), text: z.string() }).meta({ id: "ChatTextPart" }),
);

export const ImagePart = later(() =>
  z
    .object({
      type: z.literal("image_url"),
      image_url: z.object({
        url: z.string().min(1).describe("A data: URL with base64, or an address that the server may fetch"),
        detail: z.enum(["auto", "low", "high"]).nullish().describe("Has no effect"),
      }),
    })
    .meta({ id: "ChatImagePart" }),
);
export type ImagePart = z.infer<typeof ImagePart>;

const MAX_PARTS = 4_096; // limit of one message
const MAX_CALLS = 1_024;

// Parts of a message are unwrapped: a lazy one would cost a call for each part of each request.
const content = () => z.union([z.string(), z.array(TextPart.unwrap()).max(MAX_PARTS)]);
const userPart = () =>
  z.discriminatedUnion("type", [TextPart.unwrap(), ImagePart.unwrap()], {
    error: ({ code }) => (code === "invalid_union" ? NOT_READ : undefined),
  });
const userContent = () => z.union([z.string(), z.array(userPart()).max(MAX_PARTS)]);
const Name = z.string().nullish();

const toolCall = () =>
  z.object({
    id: z.string(),
    type: z.literal("function"),
    function: z.object({ name: z.string(), arguments: z.string().describe("JSON text") }),
  });
const customCall = () =>
  z.object({ id: z.string(), type: z.literal("custom"), custom: z.object({ name: z.string(), input: z.string() }) });
/** A call of a custom tool as one of a function, as the model wrote it. */
export const functionCallOf = <T extends { custom: { name: string; input: string } }>({ custom, ...rest }: T) => ({
  ...rest,
  type: "function" as const,
  function: { name: custom.name, arguments: JSON.stringify({ input: custom.input }) },
});
/** Two schemas of one shape: the OpenAPI document lets answers gain fields, and names each schema separately. */
const SentToolCall = later(() =>
  z.union([
    toolCall().meta({ id: "ChatMessageToolCall" }),
    customCall()
      .meta({ id: "ChatMessageCustomCall" })
      .transform((call) => functionCallOf(call)),
  ]),
);
export const ToolCall = later(() => toolCall().meta({ id: "ChatToolCall" }));
export type ToolCall = z.infer<typeof ToolCall>;
export const CustomCall = later(() => customCall().meta({ id: "ChatCustomCall" }));
export type CustomCall = z.infer<typeof CustomCall>;

const plain = <R extends string>(role: R) => z.object({ role: z.literal(role), content: content(), name: Name });

/** Calls and results of the older format have no id: both sides derive it from the name of the function. */
const legacyId = (name: string) => `call_${name}`;

const assistantMessage = () =>
  z
    .object({
      role: z.literal("assistant"),
      content: content().nullish(),
      name: Name,
      reasoning_content: z.string().nullish().describe("Passed to the model again if its template supports it"),
      tool_calls: z.array(SentToolCall.unwrap()).max(MAX_CALLS).nullish(),
      function_call: z
        .object({ name: z.string(), arguments: z.string() })
        .nullish()
        .describe("The older form of tool_calls"),
    })
    .transform(({ function_call: call, ...message }) =>
      call && !message.tool_calls
        ? { ...message, tool_calls: [{ id: legacyId(call.name), type: "function" as const, function: call }] }
        : message,
    );

const toolMessage = () =>
  z.object({
    role: z.literal("tool"),
    content: content(),
    tool_call_id: z.string(),
    name: Name,
  });

const functionMessage = () =>
  z
    .object({ role: z.literal("function"), content: content().nullish(), name: z.string() })
    .transform(({ content, name }) => ({
      role: "tool" as const,
      content: content ?? "",
      name,
      tool_call_id: legacyId(name),
    }))
    .describe("The older form of a tool's result");

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"];

/** The message for a role that does not exist. */
function unknownRole(message: unknown): string {
  const role = (message as { role?: unknown } | null)?.role;
  if (typeof role !== "string") return `is missing: set it to one of ${ROLES.join(", ")}`;
  const close = nearest(role, ROLES);
  const hint = close === undefined ? "" : `. Did you mean ${close}?`;
  return `${JSON.stringify(role.slice(0, 40))} is not a role: use one of ${ROLES.join(", ")}${hint}`;
}

const others = () =>
  [plain("system"), plain("developer"), assistantMessage(), toolMessage(), functionMessage()] as const;
const error = ({ code, input }: { code?: string | undefined; input?: unknown }) =>
  code === "invalid_union" ? unknownRole(input) : undefined;

/** A message of texts. */
export const ChatMessage = later(() =>
  z.discriminatedUnion("role", [plain("user"), ...others()], { error }).meta({ id: "ChatMessage" }),
);
export type ChatMessage = z.infer<typeof ChatMessage>;

/** A message of a request, which may have images. */
export const PromptMessage = later(() =>
  z
    .discriminatedUnion(
      "role",
      [z.object({ role: z.literal("user"), content: userContent(), name: Name }), ...others()],
      {
        error,
      },
    )
    .meta({ id: "ChatPromptMessage" }),
);
export type PromptMessage = z.infer<typeof PromptMessage>;

export const JsonSchema = z.record(z.string(), z.unknown()).describe("A JSON schema");

export const Tool = later(() =>
  z
    .object({
      type: z.literal("function"),
      function: z.object({
        name: z.string().regex(/^[\w.-]{1,64}$/, "must have 1 to 64 letters, digits, _, . or -"),
        description: z.string().nullish(),
        parameters: JsonSchema.nullish(),
        strict: z.boolean().nullish(),
      }),
    })
    .meta({ id: "ChatTool" }),
);
export type Tool = z.infer<typeof Tool>;

/** A function of the older format: `functions` and `function_call` instead of `tools` and `tool_choice`. */
export const LegacyFunction = later(() => Tool.unwrap().shape.function.meta({ id: "ChatFunction" }));
export const LegacyChoice = later(() => z.union([z.enum(["none", "auto"]), z.object({ name: z.string() })]));
export type LegacyChoice = z.infer<typeof LegacyChoice>;

export const ToolChoice = later(() =>
  z.union([
    z.enum(["none", "auto", "required"]),
    z.object({ type: z.literal("function"), function: z.object({ name: z.string() }) }),
  ]),
);
export type ToolChoice = z.infer<typeof ToolChoice>;

export const ResponseFormat = later(() =>
  z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("text") }),
      z.object({
        type: z.literal("json_object"),
        schema: JsonSchema.nullish().describe("The object obeys this JSON schema, as in llama.cpp"),
      }),
      z.object({
        type: z.literal("json_schema"),
        json_schema: z.object({
          name: z.string().max(64).nullish(),
          description: z.string().nullish(),
          schema: JsonSchema.nullish(),
          strict: z.boolean().nullish(),
        }),
      }),
    ])
    .meta({ id: "ChatResponseFormat" }),
);
export type ResponseFormat = z.infer<typeof ResponseFormat>;
