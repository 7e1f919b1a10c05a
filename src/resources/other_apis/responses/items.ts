/** Items of a response: what a request sends and what the model answers, in the format of OpenAI. */
import { z } from "zod";
import { later } from "../../../lib/schema.ts";

const MAX_PARTS = 4_096;

const InputPart = later(() =>
  z.discriminatedUnion(
    "type",
    [
      z.object({ type: z.literal("input_text"), text: z.string() }),
      z.object({ type: z.literal("output_text"), text: z.string() }),
      z.object({ type: z.literal("refusal"), refusal: z.string() }),
      z.object({
        type: z.literal("input_image"),
        image_url: z.string().describe("A data: URL with base64, or an address that the server may fetch"),
        detail: z.string().nullish().describe("Has no effect"),
      }),
    ],
    {
      error: ({ code }) =>
        code === "invalid_union"
          ? "must be input_text, input_image, output_text or refusal: files are not supported"
          : undefined,
    },
  ),
);
const Content = later(() => z.union([z.string(), z.array(InputPart.unwrap()).max(MAX_PARTS)]));
export type Content = z.output<typeof Content>;

const MessageItem = later(() =>
  z.object({
    type: z.literal("message").optional(),
    role: z.enum(["user", "assistant", "system", "developer"]),
    content: Content.unwrap(),
  }),
);
const CallItem = later(() =>
  z.object({
    type: z.literal("function_call"),
    id: z.string().nullish(),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string().describe("JSON text"),
  }),
);
const ResultItem = later(() =>
  z.object({ type: z.literal("function_call_output"), call_id: z.string(), output: Content.unwrap() }),
);
const CustomCallItem = later(() =>
  z.object({
    type: z.literal("custom_tool_call"),
    id: z.string().nullish(),
    call_id: z.string(),
    name: z.string(),
    input: z.string(),
  }),
);
const CustomResultItem = later(() =>
  z.object({ type: z.literal("custom_tool_call_output"), call_id: z.string(), output: Content.unwrap() }),
);
const CompactionItem = later(() =>
  z.object({
    type: z.literal("compaction"),
    id: z.string().nullish(),
    encrypted_content: z.string().describe("As POST /v1/responses/compact returned it"),
  }),
);
const ReasoningItem = later(() =>
  z.object({
    type: z.literal("reasoning"),
    id: z.string().nullish(),
    content: z
      .array(z.object({ type: z.literal("reasoning_text"), text: z.string() }))
      .max(MAX_PARTS)
      .nullish(),
  }),
);
const ReferenceItem = later(() =>
  z.object({
    type: z.literal("item_reference"),
    id: z.string().describe("Id of an item of a stored response"),
  }),
);

/** All parts are unwrapped: a lazy one would cost a call for each item of each request. */
export const InputItem = later(() =>
  z
    .discriminatedUnion(
      "type",
      [
        MessageItem.unwrap(),
        CallItem.unwrap(),
        ResultItem.unwrap(),
        CustomCallItem.unwrap(),
        CustomResultItem.unwrap(),
        ReasoningItem.unwrap(),
        CompactionItem.unwrap(),
        ReferenceItem.unwrap(),
      ],
      {
        error: ({ code }) =>
          code === "invalid_union"
            ? "must be message, function_call, custom_tool_call, an output of these, reasoning, compaction or item_reference"
            : undefined,
      },
    )
    .meta({ id: "ResponseInputItem" }),
);
export type InputItem = z.output<typeof InputItem>;
/** An item whose content is in the request, or was found. */
export type KnownItem = Exclude<InputItem, { type: "item_reference" | "compaction" }>;

export const STATUSES = ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"] as const;

const STATES = ["in_progress", "completed", "incomplete"] as const;
const Alternative = later(() =>
  z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()).nullable() }),
);
const OutputText = later(() =>
  z.object({
    type: z.literal("output_text"),
    text: z.string(),
    annotations: z.array(z.never()).describe("Always empty"),
    logprobs: z
      .array(Alternative.unwrap().extend({ top_logprobs: z.array(Alternative) }))
      .describe("With top_logprobs"),
  }),
);
export type OutputText = z.infer<typeof OutputText>;

export const OutputItem = later(() =>
  z.union([
    z.object({
      type: z.literal("message"),
      id: z.string(),
      status: z.enum(STATES),
      role: z.literal("assistant"),
      content: z.array(OutputText),
    }),
    z.object({
      type: z.literal("function_call"),
      id: z.string(),
      status: z.enum(STATES),
      call_id: z.string(),
      name: z.string(),
      arguments: z.string().describe("JSON text"),
    }),
    z.object({
      type: z.literal("custom_tool_call"),
      id: z.string(),
      status: z.enum(STATES),
      call_id: z.string(),
      name: z.string(),
      input: z.string(),
    }),
    z.object({
      type: z.literal("reasoning"),
      id: z.string(),
      status: z.enum(STATES),
      summary: z.array(z.never()).describe("Always empty"),
      content: z.array(z.object({ type: z.literal("reasoning_text"), text: z.string() })),
    }),
  ]),
);
export type OutputItem = z.infer<typeof OutputItem>;
