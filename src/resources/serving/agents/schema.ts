import { z } from "zod";
import { ResponseFormat, Tool, ToolChoice } from "../../../lib/chat/messages.ts";
import { isId } from "../../../lib/ids.ts";
import { DateTime, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { AgentRow } from "./table.ts";
import { McpServer } from "./tools/schema.ts";

const MAX_TOOLS = 128;
const MAX_PROMPT = 100_000;
const MAX_STOPS = 16;
const MOST_TURNS = 100;

/** The limits are those of a chat request, which checks the merged fields again. */
const StopText = z.string().min(1).max(256);
export const Sampling = later(() =>
  z
    .object({
      temperature: z.number().min(0).max(2),
      top_p: z.number().min(0).max(1),
      top_k: z.int().min(-1).max(1_000_000),
      min_p: z.number().min(0).max(1),
      max_completion_tokens: z.int().min(1),
      stop: z.union([StopText, z.array(StopText).max(MAX_STOPS)]),
      seed: z.int(),
      frequency_penalty: z.number().min(-2).max(2),
      presence_penalty: z.number().min(-2).max(2),
      response_format: ResponseFormat,
      tool_choice: ToolChoice,
      parallel_tool_calls: z.boolean(),
      chat_template_kwargs: z.record(z.string(), z.unknown()),
    })
    .partial()
    .meta({ id: "AgentSampling" }),
);

const agentFields = () => ({
  object: z.literal("agent"),
  id: z.string(),
  name: z.string(),
  version: z.int(),
  description: z.string().nullable(),
  deployment: z.string().describe("Name or id of the deployment that answers"),
  system_prompt: z.string().nullable(),
  tools: z.array(z.record(z.string(), z.unknown())).describe("Functions as in a chat request, and MCP servers"),
  sampling: z.record(z.string(), z.unknown()).describe("Fields of a chat request that the agent sets"),
  max_turns: z
    .int()
    .nullable()
    .describe("Turns of one chat, in which this server calls tools of MCP servers. null: 10"),
  metadata: z.record(z.string(), z.string()),
  created_at: DateTime,
});
export const Agent = later(() => z.object(agentFields()).meta({ id: "Agent" }));
export type Agent = z.infer<typeof Agent>;

/** A name is used as `model`, and may be followed by @version. */
const Name = Label(100)
  .refine((text) => /^[\p{L}\p{N}][^/@]*$/u.test(text), "must begin with a letter or digit and contain no / or @")
  .refine((text) => !isId(text, "agt") && !isId(text, "dep"), "must not look like an id");

export const CreateAgent = later(() =>
  z
    .object({
      name: Name.describe("An existing name gets the next version"),
      description: Label(2000).nullish(),
      deployment: Label(200).describe("Name or id of a deployment"),
      system_prompt: z
        .string()
        .min(1)
        .max(MAX_PROMPT)
        .refine((text) => text.isWellFormed(), "must be well-formed Unicode")
        .nullish(),
      tools: z
        .array(z.discriminatedUnion("type", [Tool.unwrap(), McpServer.unwrap()]))
        .max(MAX_TOOLS)
        .superRefine((tools, { addIssue }) => {
          const labels = tools.map((tool) => (tool.type === "mcp" ? tool.server_label : undefined));
          const twice = labels.findIndex((label, i) => label !== undefined && labels.indexOf(label) !== i);
          if (twice >= 0)
            addIssue({ code: "custom", path: [twice, "server_label"], message: "another server has the same label" });
        })
        .optional()
        .describe("Functions, whose calls go to the client, and MCP servers, whose tools this server calls"),
      max_turns: z
        .int()
        .min(1)
        .max(MOST_TURNS)
        .nullish()
        .describe("Turns of one chat, in which this server calls tools of MCP servers. Default: 10"),
      sampling: Sampling.optional().describe("Defaults of chat requests. A field of a request overrides its default"),
      metadata: Metadata.optional(),
    })
    .meta({ id: "CreateAgent" }),
);
export type CreateAgent = z.infer<typeof CreateAgent>;

export const present = (row: AgentRow): Agent => ({
  object: "agent",
  id: row.id,
  name: row.name,
  version: row.version,
  description: row.description,
  deployment: row.deployment,
  system_prompt: row.systemPrompt,
  tools: row.tools,
  sampling: row.sampling,
  max_turns: row.maxTurns,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
});

/** The data of events. */
export const report = ({ id, name, version }: AgentRow) => ({ object: "agent" as const, id, name, version });
