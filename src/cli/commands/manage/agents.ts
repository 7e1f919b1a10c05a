import { readFileSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import { command, EXIT, FULL_FLAG, type Group, JSON_FLAG, SERVER_FLAGS } from "../../args.ts";
import { connect } from "../../connect.ts";
import { listAll } from "../../lists.ts";
import { note, print, printJson, printTable } from "../../output.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;
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

const create = command({
  summary: "Create an agent; an existing name gets a new version",
  takes: ["name"],
  flags: {
    ...FLAGS,
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
  async run({ json, deployment, system, tools, sampling, description, ...where }, name = "") {
    const fields = {
      ...{ name, deployment, description, system_prompt: textOf("system", system) },
      ...{ tools: jsonOf("tools", tools), sampling: jsonOf("sampling", sampling) },
    };
    const { client } = await connect(where);
    const { body } = await client.call<Agent>("POST", PATH, fields);
    if (json) printJson(body);
    else {
      print(body.id);
      note(`${body.name}@${body.version} answers chat requests as model ${JSON.stringify(body.name)}.`);
    }
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the newest version of each agent",
  flags: { ...FLAGS, all: { type: "boolean", doc: "List every version" }, full: FULL_FLAG },
  examples: ["verk agents list", "verk agents list --all --json"],
  async run({ json, all, full, ...where }) {
    const { client } = await connect(where);
    const found = await listAll<Agent>(client, `${PATH}?latest=${!all}`, ({ id }) => id);
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map((each) => [
        each.id,
        `${each.name}@${each.version}`,
        each.deployment,
        String(each.tools.length),
        each.created_at,
      ]);
      const empty = "No agents. Create one with `verk agents create NAME --deployment NAME`.";
      printTable(["ID", "NAME", "DEPLOYMENT", "TOOLS", "CREATED"], rows, empty, { full });
    }
    return EXIT.ok;
  },
});

const show = command({
  summary: "Print a version of an agent as JSON",
  takes: ["agent"],
  flags: SERVER_FLAGS,
  examples: ["verk agents show support", "verk agents show support@1"],
  async run(where, target = "") {
    const { client } = await connect(where);
    const { body } = await client.call<Agent>("GET", `${PATH}/${encodeURIComponent(target)}`);
    print(JSON.stringify(body, null, 2));
    return EXIT.ok;
  },
});

const remove = command({
  summary: "Delete one version of an agent",
  takes: ["agent"],
  flags: FLAGS,
  examples: ["verk agents delete support@1"],
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { body } = await client.call<{ id: string }>("DELETE", `${PATH}/${encodeURIComponent(target)}`);
    if (json) printJson(body);
    else note(`${target} (${body.id}) is deleted.`);
    return EXIT.ok;
  },
});

export const agents: Group = {
  summary: "Agents: a deployment with a system prompt, tools and sampling, used as a model",
  subcommands: { create, list, show, delete: remove },
};
