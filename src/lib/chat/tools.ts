/** Tools of a chat request: functions, custom tools that take one text, and kinds that are dropped. */
import { z } from "zod";
import { later } from "../schema.ts";
import { Tool, ToolChoice } from "./messages.ts";

const MAX_TOOLS = 128;
const MAX_GRAMMAR = 65_536; // characters

/** The text of a custom tool is free, or obeys a regular expression. A Lark grammar is shown to the model. */
export const CustomFormat = later(() =>
  z.discriminatedUnion("type", [
    z.object({ type: z.literal("text") }),
    z.object({
      type: z.literal("grammar"),
      grammar: z.object({ syntax: z.enum(["lark", "regex"]), definition: z.string().max(MAX_GRAMMAR) }),
    }),
  ]),
);

const CustomTool = later(() =>
  z
    .object({
      type: z.literal("custom"),
      custom: z.object({
        name: Tool.unwrap().shape.function.shape.name,
        description: z.string().nullish(),
        format: CustomFormat.unwrap().nullish().describe("regex is obeyed; lark is shown to the model"),
      }),
    })
    .meta({ id: "ChatCustomTool" }),
);
export type CustomTool = z.infer<typeof CustomTool>;

const SERVED = ["function", "custom"];
/** A kind of tool that the provider of another server runs, such as `web_search`. */
export const otherKind = (but: readonly string[] = []) =>
  z.looseObject({ type: z.string() }).refine(({ type }) => ![...SERVED, ...but].includes(type), {
    message: "is not complete",
    abort: true, // else the union takes this member, with this message
  });
type OtherKind = z.infer<ReturnType<typeof otherKind>>;

export type SentTool = z.infer<typeof Tool> | CustomTool;
export const isServed = <T extends { type: string }>(tool: T | OtherKind): tool is T => SERVED.includes(tool.type);

/** Other kinds are dropped. The answer names them (`droppedKinds`). */
export const SentTools = later(() =>
  z
    .array(z.union([Tool.unwrap(), CustomTool.unwrap(), otherKind()]))
    .max(MAX_TOOLS)
    .transform((tools) => tools.filter((tool) => isServed<SentTool>(tool))),
);

const CustomChoice = later(() => z.object({ type: z.literal("custom"), custom: z.object({ name: z.string() }) }));
type NamedTool = Exclude<ToolChoice, string> | z.infer<typeof CustomChoice>;
const AllowedTools = later(() =>
  z.object({
    type: z.literal("allowed_tools"),
    allowed_tools: z.object({
      mode: z.enum(["auto", "required"]),
      tools: z
        .array(z.union([ToolChoice.unwrap().options[1], CustomChoice.unwrap(), otherKind()]))
        .max(MAX_TOOLS)
        .transform((tools) => tools.filter((tool) => isServed<NamedTool>(tool)))
        .describe("The model sees these tools alone"),
    }),
  }),
);
export type SentChoice = ToolChoice | NamedTool | z.output<typeof AllowedTools>;

/** A choice of a tool that was dropped is `auto`. */
export const SentChoice = later(() =>
  z
    .union([
      ...ToolChoice.unwrap().options,
      CustomChoice.unwrap(),
      AllowedTools.unwrap(),
      otherKind(["allowed_tools"]).transform(() => "auto" as const),
    ])
    .transform((choice): SentChoice => choice),
);

export const toolName = (tool: SentTool | NamedTool): string =>
  tool.type === "custom" ? tool.custom.name : tool.function.name;

/** The kinds of tools in a body that are dropped, with their places. `body`: as it was sent. */
export function droppedKinds(body: unknown): string[] {
  const { tools } = (body ?? {}) as { tools?: unknown };
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool, i) => {
    const type = (tool as { type?: unknown } | null)?.type;
    return typeof type === "string" && !SERVED.includes(type) ? [`tool ${type} at /tools/${i}`] : [];
  });
}

/** Tools, and the choice among them, as the model sees them: each is a function. */
export type PlainTools = {
  tools: z.infer<typeof Tool>[];
  tool_choice: z.infer<typeof ToolChoice>;
  /** Names of custom tools. Their calls have a text instead of arguments. */
  custom: ReadonlySet<string>;
};

export function plainTools(tools: readonly SentTool[], choice: SentChoice): PlainTools {
  const all = tools.map((tool) => (tool.type === "custom" ? asFunction(tool) : tool));
  const custom = new Set(tools.flatMap((tool) => (tool.type === "custom" ? [tool.custom.name] : [])));
  if (typeof choice === "string") return { tools: all, tool_choice: choice, custom };
  if (choice.type !== "allowed_tools") {
    return { tools: all, tool_choice: { type: "function", function: { name: toolName(choice) } }, custom };
  }
  const allowed = new Set(choice.allowed_tools.tools.map(toolName));
  const shown = all.filter(({ function: { name } }) => allowed.has(name));
  return { tools: shown, tool_choice: shown.length === 0 ? "none" : choice.allowed_tools.mode, custom };
}

function asFunction({ custom: { name, description, format } }: CustomTool): z.infer<typeof Tool> {
  const grammar = format?.type === "grammar" ? format.grammar : undefined;
  const rule = grammar?.syntax === "lark" ? `The input obeys this Lark grammar:\n${grammar.definition}` : "";
  const input =
    grammar?.syntax === "regex" ? { type: "string", pattern: `^(?:${grammar.definition})$` } : { type: "string" };
  return {
    type: "function",
    function: {
      name,
      description: [description, rule].filter(Boolean).join("\n"),
      parameters: { type: "object", properties: { input }, required: ["input"], additionalProperties: false },
    },
  };
}

type Call = { type?: string | undefined };
export const isFunctionCall = <T extends Call>(call: T): call is Exclude<T, { type: "custom" }> =>
  call.type !== "custom";

/** The text of a call of a custom tool. Arguments that the model cut off are the text as they are. */
export function customInput(args: string): string {
  try {
    const { input } = JSON.parse(args) as { input?: unknown };
    return typeof input === "string" ? input : args;
  } catch {
    return args;
  }
}
