/** The tool `mcp` of an agent, as in OpenAI's responses; a server that is a command is written as in `mcpServers`. */
import { z } from "zod";
import { later } from "../../../../lib/schema.ts";
import { Env, MountPath } from "../../../machines/sessions/schema.ts";

const MAX_NAMES = 500;
const MAX_HEADERS = 50;
const MAX_ARGUMENTS = 100;

/** A reference to a secret of the workspace. */
const REFERENCE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;
const CREDENTIAL = /auth|cookie|key|token|secret|passw/i;
const NEEDS_SECRET = `must take its secret from the workspace: PUT /v1/secrets/NAME, and write \${NAME} here`;
const hasReference = (text: string) => text.search(REFERENCE) >= 0;

/** The text with the value of each secret in it. */
export const withSecrets = (text: string, secretOf: (name: string) => string): string =>
  text.replaceAll(REFERENCE, (_, name: string) => secretOf(name));

const ToolNames = z.array(z.string().min(1).max(128)).max(MAX_NAMES);
const ToolFilter = later(() =>
  z.object({
    tool_names: ToolNames.optional(),
    read_only: z.boolean().optional().describe("The server says of these tools that they change nothing"),
  }),
);
export type ToolFilter = z.output<typeof ToolFilter>;

const HeaderName = z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,200}$/, "must be the name of a header");
const HeaderValue = z
  .string()
  .max(8_000)
  .regex(/^[\t\x20-\x7e]*$/, "must be visible ASCII");

const Headers = later(() =>
  z
    .record(HeaderName, HeaderValue)
    .refine((headers) => Object.keys(headers).length <= MAX_HEADERS, `must have at most ${MAX_HEADERS} headers`)
    .superRefine((headers, { addIssue }) => {
      for (const [name, value] of Object.entries(headers))
        if (CREDENTIAL.test(name) && !hasReference(value))
          addIssue({ code: "custom", path: [name], message: NEEDS_SECRET });
    }),
);

const ServerEnv = later(() =>
  Env.unwrap().superRefine((env, { addIssue }) => {
    for (const [name, value] of Object.entries(env))
      if (CREDENTIAL.test(name) && !hasReference(value))
        addIssue({ code: "custom", path: [name], message: NEEDS_SECRET });
  }),
);

const Volume = later(() =>
  z.object({
    name: z.string().min(1).max(80).describe("Name or id of a volume"),
    mount_path: MountPath,
    read_only: z.boolean().default(true),
  }),
);

const Argument = z
  .string()
  .max(10_000)
  .refine((text) => !text.includes("\0"), "must not contain a NUL character");

export const McpServer = later(() =>
  z
    .object({
      type: z.literal("mcp"),
      server_label: z.string().regex(/^[A-Za-z0-9][\w-]{0,39}$/, "must have 1 to 40 letters, digits, _ or -"),
      server_description: z.string().max(2_000).nullish(),
      server_url: z.string().min(1).max(2_000).optional().describe("Address of a server that speaks streamable HTTP"),
      authorization: HeaderValue.refine(hasReference, NEEDS_SECRET)
        .optional()
        .describe(`Token for the header Authorization, such as \${API_TOKEN}: a secret of the workspace`),
      headers: Headers.optional().describe(`Headers of each request. \${NAME} is a secret of the workspace`),
      command: Argument.min(1).optional().describe("Program of a server that runs in a jail of its own, such as node"),
      args: z.array(Argument).max(MAX_ARGUMENTS).optional(),
      env: ServerEnv.optional().describe(`Variables of the program. \${NAME} is a secret of the workspace`),
      volumes: z.array(Volume).max(16).optional().describe("Volumes that the program sees"),
      allowed_tools: z.union([ToolNames, ToolFilter]).nullish().describe("Default: all tools of the server"),
      require_approval: z
        .union([z.enum(["always", "never"]), z.object({ always: ToolFilter.optional(), never: ToolFilter.optional() })])
        .default("always"),
    })
    .refine(({ server_url, command }) => (server_url === undefined) !== (command === undefined), {
      path: ["server_url"],
      message: "set either server_url or command",
    })
    .meta({ id: "AgentMcpServer" }),
);
export type McpServer = z.output<typeof McpServer>;

type Described = { name: string; isReadOnly: boolean };

const matches = ({ tool_names: names, read_only: isReadOnly }: ToolFilter, tool: Described): boolean =>
  (names?.includes(tool.name) ?? true) && (isReadOnly === undefined || isReadOnly === tool.isReadOnly);

export function isAllowed({ allowed_tools: allowed }: McpServer, tool: Described): boolean {
  if (!allowed) return true;
  return matches(Array.isArray(allowed) ? { tool_names: allowed } : allowed, tool);
}

/** A tool that no filter matches needs approval. */
export function needsApproval({ require_approval: required }: McpServer, tool: Described): boolean {
  if (typeof required === "string") return required === "always";
  if (required.always && matches(required.always, tool)) return true;
  return !(required.never && matches(required.never, tool));
}
