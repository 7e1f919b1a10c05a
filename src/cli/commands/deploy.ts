import { existsSync } from "node:fs";
import { UsageError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/time.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { type Connection, connect } from "../connect.ts";
import { type Deployment, follow } from "../deployments.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { labelOf } from "./manage/keys.ts";

const FLAGS = {
  name: { type: "string", value: "NAME", doc: "Its name, also the model name in requests (default: from the model)" },
  "min-replicas": { type: "string", value: "N", doc: "0: parked when idle, woken by the next request (default 1)" },
  "max-replicas": { type: "string", value: "N", doc: "How many replicas at most (default 1)" },
  parallel: { type: "string", value: "N", doc: "Sequences that a replica decodes at once" },
  "context-length": { type: "string", value: "N", doc: "Tokens of context for each sequence" },
  "idle-timeout": {
    type: "string",
    value: "TIME",
    doc: "Idle for this long (90s, 10m, 1h), it is parked (default 5m)",
  },
  pinned: { type: "boolean", doc: "Never park it to make room for others" },
  "no-wait": { type: "boolean", doc: "Return at once instead of waiting until it serves" },
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
  ],
  exits: { 1: "failed: the model could not be served", [INTERRUPTED]: "interrupted: it goes on without this command" },
  async run(flags, model = "") {
    const wanted = wishOf(flags, model);
    const connection = await connect(flags);
    const { body } = await connection.client.call<Deployment>("POST", "/v1/deployments", wanted);
    if (flags["no-wait"]) {
      if (flags.json) printJson(body);
      else print(body.id);
      return EXIT.ok;
    }
    return await watch(connection, body, flags.json);
  },
});

type Wish = {
  name?: string | undefined;
  "min-replicas"?: string | undefined;
  "max-replicas"?: string | undefined;
  parallel?: string | undefined;
  "context-length"?: string | undefined;
  "idle-timeout"?: string | undefined;
  pinned: boolean;
};

/** The body of the creation: only what was asked for, so that the server's defaults hold for the rest. */
function wishOf(flags: Wish, model: string): Record<string, unknown> {
  if (/^(\.{0,2}\/|~)/.test(model) || (model.endsWith(".gguf") && existsSync(model)))
    throw new UsageError(
      `${model} is a file: take it in with \`verk models import ${model}\`, then deploy it by name.`,
    );
  const given = {
    min_replicas: wholeOf("min-replicas", flags["min-replicas"]),
    max_replicas: wholeOf("max-replicas", flags["max-replicas"]),
    parallel: wholeOf("parallel", flags.parallel),
    context_length: wholeOf("context-length", flags["context-length"]),
    idle_timeout_seconds: secondsOf("idle-timeout", flags["idle-timeout"]),
  };
  return {
    model,
    name: labelOf("--name", flags.name ?? nameFrom(model)),
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    ...(flags.pinned ? { pinned: true } : {}),
  };
}

/** `owner/Some-Model-GGUF:Q4_K_M` → `some-model`. */
const nameFrom = (model: string) =>
  (model.split("/").at(-1) ?? model)
    .replace(/:.*$/, "")
    .replace(/[-_.]gguf$/i, "")
    .toLowerCase() || model;

function secondsOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms === undefined || ms < 1000)
    throw new UsageError(`--${flag}: expected 90s, 10m or 1h, not ${JSON.stringify(text)}`);
  return Math.round(ms / 1000);
}

async function watch({ url, client }: Connection, made: Deployment, json: boolean): Promise<number> {
  const interrupted = new AbortController();
  const onSignal = () => interrupted.abort();
  process.once("SIGINT", onSignal);
  const progress = createProgress();
  let last: Deployment | undefined;
  try {
    last = await follow(client, made.id, progress, interrupted.signal);
  } finally {
    process.off("SIGINT", onSignal);
    progress.end();
  }
  if (!last) {
    note(
      `${made.name} (${made.id}) goes on without this command: \`verk deployments show ${made.name}\` tells how far it is.`,
    );
    return INTERRUPTED;
  }
  if (last.status !== "serving") {
    if (json) printJson(last);
    note(`verk: ${made.name} (${made.id}) is ${last.status}${last.error ? `: ${last.error}` : ""}`);
    return EXIT.failed;
  }
  if (json) printJson(last);
  else announce(url, last);
  return EXIT.ok;
}

function announce(url: string, { id, name, endpoint_url }: Deployment) {
  const model = JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello" }] }).replaceAll(
    "'",
    "'\\''",
  );
  note(`${name} (${id}) is serving. Any OpenAI client: base URL ${url}/v1/deployments/${id}`);
  print(`${url}${endpoint_url}`);
  note(`
  verk chat ${/^[\w.-]+$/.test(name) ? name : id}

  curl ${url}${endpoint_url} \\
    -H "Authorization: Bearer $VERK_API_KEY" -H "Content-Type: application/json" \\
    -d '${model}'`);
}
