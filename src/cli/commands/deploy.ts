import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { folderHint, isHuggingFaceFolder, isSafetensors, safetensorsHint } from "../../lib/gguf/other_formats.ts";
import { parseDuration } from "../../lib/time.ts";
import { ambientEnv } from "../../platform/config/config.ts";
import type { CreateDeployment } from "../../resources/serving/deployments/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { type Connection, connect, type ServerOptions } from "../connect.ts";
import { type Deployment, untilServing } from "../deployments.ts";
import { bodyOf, type FieldFlags, fieldsOf } from "../field_flags.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { note, print, printJson, printResult } from "../output.ts";
import { settingsOf } from "../settings.ts";
import { labelOf } from "./manage/keys.ts";

/**
 * Settings of the deployment that have a flag. Names, units and texts are those of the command line, so they are
 * declared here; the declaration of the server needs its tables, and this ring takes only its types.
 */
export const SETTING_FLAGS = {
  "min-replicas": {
    sets: "min_replicas",
    type: "string",
    value: "N",
    doc: "Minimum number of replicas; 0 = park when idle, wake on the next request (default 1)",
    read: wholeOf,
  },
  "max-replicas": {
    sets: "max_replicas",
    type: "string",
    value: "N",
    doc: "Maximum number of replicas (default 1)",
    read: wholeOf,
  },
  parallel: {
    sets: "parallel",
    type: "string",
    value: "N",
    doc: "Number of sequences that a replica decodes at once",
    read: wholeOf,
  },
  "context-length": {
    sets: "context_length",
    type: "string",
    value: "N",
    doc: "Context length of each sequence in tokens",
    read: wholeOf,
  },
  "kv-type": {
    sets: "kv_type",
    type: "string",
    value: "TYPE",
    choices: ["f16", "q8_0"],
    doc: "Numbers of keys and values: q8_0 takes half of their memory (default: serving.kv_type)",
  },
  "idle-timeout": {
    sets: "idle_timeout_seconds",
    type: "string",
    value: "TIME",
    doc: "Park the deployment after this idle time, such as 90s, 10m or 1h (default 5m)",
    read: secondsOf,
  },
  region: { sets: "region", type: "string", value: "REGION", doc: "Serve in this region (default: this machine)" },
  pinned: { sets: "pinned", type: "boolean", doc: "Never park the deployment to make room for others" },
  capture: {
    sets: "capture",
    type: "string",
    value: "LEVEL",
    choices: ["none", "metadata", "full"],
    doc: "How much of each request its trace keeps: none, metadata or full (default none)",
  },
} as const satisfies FieldFlags<CreateDeployment>;

const FLAGS = {
  name: {
    type: "string",
    value: "NAME",
    doc: "Name of the deployment and model name in requests (default: derived from the model)",
  },
  base: {
    type: "string",
    value: "MODEL",
    doc: "Base model of an adapter, if several fit it; only on the machine of the server",
  },
  ...SETTING_FLAGS,
  "no-wait": { type: "boolean", doc: "Return at once instead of waiting until the deployment serves" },
  ...SERVER_FLAGS,
  json: JSON_FLAG,
} as const;

export const deploy = command({
  summary: "Serve a model",
  takes: ["model"],
  flags: FLAGS,
  examples: [
    "verk deploy verk-tiny --name demo",
    "verk deploy Qwen/Qwen2.5-0.5B-Instruct-GGUF --name qwen --min-replicas 0",
    "verk deploy carry.adapter --base verk-tiny",
  ],
  fields: fieldsOf(SETTING_FLAGS),
  exits: {
    1: "failed: the model could not be served",
    [INTERRUPTED]: "interrupted: the deployment continues on the server",
  },
  async run(flags, model = "") {
    mustNotBeFile(model);
    const settings = bodyOf(SETTING_FLAGS, flags);
    const fields = { model, name: labelOf("--name", flags.name ?? nameFrom(model)), ...settings };
    if (flags.base !== undefined) await setBase(flags, model, flags.base);
    const connection = await connect(flags);
    const { body } = await connection.client.call<Deployment>("POST", "/v1/deployments", fields);
    if (flags["no-wait"]) {
      printResult(flags.json, body, { result: body.id });
      return EXIT.ok;
    }
    return await watch(connection, body, flags.json);
  },
});

/** The base belongs to the model, not to the deployment: a later deployment of the adapter uses the same one. */
async function setBase({ url, data, config }: ServerOptions, adapter: string, base: string) {
  if (url !== undefined || ambientEnv()["VERK_URL"])
    throw new UsageError("--base works on the data directory of the server: use it there, without --url and VERK_URL");
  const { chooseBase, DEFAULT_WORKSPACE, mustFindWorkspace, offline } = await import("../offline.ts");
  await offline(settingsOf({ data, config }), (ctx) =>
    chooseBase(ctx, mustFindWorkspace(ctx, DEFAULT_WORKSPACE).id, adapter, base),
  );
}

export function mustNotBeFile(model: string) {
  if (/^(\.{0,2}\/|~)/.test(model) || (/\.(gguf|safetensors)$/.test(model) && existsSync(model)))
    throw new UsageError(importHint(model));
}

function importHint(path: string): string {
  const there = statSync(path, { throwIfNoEntry: false });
  if (there?.isDirectory())
    return isHuggingFaceFolder(readdirSync(path))
      ? `${folderHint(path)}. Then deploy the model by name.`
      : `${path} is a folder. Import a GGUF file or a Hugging Face folder with \`verk models import PATH\`, then deploy it by name.`;
  if (isSafetensors(path)) return `${safetensorsHint(path, dirname(path))}. Then deploy the model by name.`;
  return `${path} is a file. Import it with \`verk models import ${path}\`, then deploy it by name.`;
}

/** Derives a name: `owner/Some-Model-GGUF:Q4_K_M` becomes `some-model`. */
export const nameFrom = (model: string) =>
  (model.split("/").at(-1) ?? model)
    .replace(/:.*$/, "")
    .replace(/[-_.]gguf$/i, "")
    .toLowerCase() || model;

function secondsOf(flag: string, text: string): number {
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms === undefined || ms < 1000)
    throw new UsageError(`--${flag}: expected a duration such as 90s, 10m or 1h, not ${JSON.stringify(text)}`);
  return Math.round(ms / 1000);
}

async function watch(connection: Connection, created: Deployment, json: boolean): Promise<number> {
  const last = await untilServing(connection, created);
  if (!last) return INTERRUPTED;
  if (json) printJson(last);
  else if (last.status === "serving") announce(connection.url, last);
  return last.status === "serving" ? EXIT.ok : EXIT.failed;
}

function announce(url: string, { id, name, endpoint_url }: Deployment) {
  const body = JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello" }] }).replaceAll("'", "'\\''");
  note(`${name} (${id}) is serving. OpenAI clients: base URL ${url}/v1, model ${name}.`);
  print(`${url}${endpoint_url}`);
  note(`
  verk chat ${/^[\w.-]+$/.test(name) ? name : id}

  export VERK_URL=${url} VERK_API_KEY=$(verk keys create)
  curl "$VERK_URL/v1/chat/completions" -H "Authorization: Bearer $VERK_API_KEY" --json '${body}'`);
}
