import { readFileSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Group } from "../../args.ts";
import { createCommand, listCommand, removeCommand, showCommand } from "../../resource_commands.ts";

const PATH = "/v1/agents";

/** `@FILE` is the content of a file. */
function textOf(flag: string, text: string | undefined): string | undefined {
  if (!text?.startsWith("@")) return text;
  try {
    return readFileSync(text.slice(1), "utf8");
  } catch (cause) {
    throw new UsageError(`--${flag}: ${text.slice(1)} cannot be read: ${(cause as Error).message}`);
  }
}

function jsonOf(flag: string, text: string | undefined): unknown {
  const content = textOf(flag, text);
  if (content === undefined) return undefined;
  try {
    return JSON.parse(content) as unknown;
  } catch {
    throw new UsageError(`--${flag}: expected JSON, or @FILE with JSON in it`);
  }
}

const create = createCommand({
  summary: "Create an agent; an existing name gets a new version",
  takes: "name",
  path: PATH,
  flags: {
    deployment: { type: "string", value: "NAME", doc: "Name or id of the deployment that answers" },
    system: { type: "string", value: "TEXT", doc: "System prompt, or @FILE" },
    tools: { type: "string", value: "JSON", doc: "List of tools as in a chat request, or @FILE" },
    sampling: { type: "string", value: "JSON", doc: "Fields of a chat request such as temperature, or @FILE" },
    description: { type: "string", value: "TEXT", doc: "Description of the agent" },
  },
  examples: [
    'verk agents create support --deployment demo --system "Answer in one sentence."',
    "verk agents create support --deployment demo --system @prompt.txt --sampling '{\"temperature\": 0}'",
  ],
  fields: { system_prompt: "--system" },
  body: ({ deployment, system, tools, sampling, description }, name) => ({
    name,
    deployment,
    description,
    system_prompt: textOf("system", system),
    tools: jsonOf("tools", tools),
    sampling: jsonOf("sampling", sampling),
  }),
  says: ({ name, version }: Agent) => `${name}@${version} answers chat requests as model ${JSON.stringify(name)}.`,
});

const list = listCommand({
  summary: "List the newest version of each agent",
  examples: ["verk agents list", "verk agents list --all --json"],
  path: PATH,
  flags: { all: { type: "boolean", doc: "List every version" } },
  query: ({ all }) => ({ latest: String(!all) }),
  columns: {
    ID: ({ id }: Agent) => id,
    NAME: ({ name, version }) => `${name}@${version}`,
    DEPLOYMENT: ({ deployment }) => deployment,
    TOOLS: ({ tools }) => String(tools.length),
    CREATED: ({ created_at }) => created_at,
  },
  empty: "No agents. Create one with `verk agents create NAME --deployment NAME`.",
  hasShortIds: true,
});

const show = showCommand<Agent>({
  summary: "Print a version of an agent as JSON",
  examples: ["verk agents show support", "verk agents show support@1"],
  takes: "agent",
  path: PATH,
});

const remove = removeCommand({
  summary: "Delete one version of an agent",
  examples: ["verk agents delete support@1"],
  takes: "agent",
  path: PATH,
  says: ({ id }, agent) => `${agent} (${id}) is deleted.`,
});

export const agents: Group = {
  summary: "Agents: a deployment with a system prompt, tools and sampling, used as a model",
  subcommands: { create, list, show, delete: remove },
};
