import { basename } from "node:path";
import { UsageError } from "../../../lib/errors.ts";
import type { Exec, Session } from "../../../resources/sessions/schema.ts";
import { command, EXIT, type Group, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../../args.ts";
import { ApiError, type Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { INTERRUPTED, interruptible } from "../../interrupt.ts";
import { listAll } from "../../lists.ts";
import { note, print, printJson, printTable } from "../../output.ts";
import { streamOf } from "../../transfer/form.ts";
import { toFile, toOutput } from "../../transfer/sink.ts";
import { openSource } from "../../transfer/source.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;
const NONE = { 1: "failed: there is no such session, or it has ended" };
const ENV_FLAG = {
  type: "string",
  value: "NAME=VALUE",
  multiple: true,
  doc: "A variable for commands; may be given again. Others on this machine can see it",
} as const;

/** `A=b` … → { A: "b" } */
function envOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) throw new UsageError(`--env: expected NAME=VALUE, not ${JSON.stringify(pair)}`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** `lab:/workspace/data:rw` */
function mountOf(text: string) {
  const [, name, mount_path, mode] = /^([^:]+):(\/[^:]*)(?::(ro|rw))?$/.exec(text) ?? [];
  if (name === undefined || mount_path === undefined)
    throw new UsageError(`--volume: expected NAME:/PATH or NAME:/workspace/PATH:rw, not ${JSON.stringify(text)}`);
  return { name, mount_path, read_only: mode !== "rw" };
}

const create = command({
  summary: "Create a session",
  flags: {
    ...FLAGS,
    name: { type: "string", value: "NAME", doc: "For your own use" },
    volume: { type: "string", value: "NAME:PATH[:rw]", multiple: true, doc: "A volume at a path; rw below /workspace" },
    env: ENV_FLAG,
    timeout: { type: "string", value: "SECONDS", doc: "Its life (default: as the server is set)" },
    idle: { type: "string", value: "SECONDS", doc: "It expires when nobody uses it for this long" },
    network: { type: "boolean", doc: "With the network of the server, where that is allowed" },
  },
  examples: ["verk sessions create", "verk sessions create --volume lab:/data --env TOKEN=x"],
  exits: { 1: "failed: the server cannot or may not make one" },
  async run({ json, name, volume, env, timeout, idle, network, ...where }) {
    const { client } = await connect(where);
    const [timeout_seconds, idle_timeout_seconds] = [wholeOf("timeout", timeout), wholeOf("idle", idle)];
    const volumes = volume.map(mountOf);
    const wish = { name, volumes, env: envOf(env), network, timeout_seconds, idle_timeout_seconds };
    const { body } = await client.call<Session>("POST", "/v1/sessions", wish);
    if (json) printJson(body);
    else {
      print(body.id);
      note(`Run something in it with \`verk sessions exec ${body.id} -- ls -la\`.`);
    }
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the sessions, newest first",
  flags: { ...FLAGS, status: { type: "string", value: "STATUS", doc: "Only these, such as ready" } },
  examples: ["verk sessions list", "verk sessions list --status ready --json"],
  async run({ json, status, ...where }) {
    const { client } = await connect(where);
    const query = status === undefined ? "" : `?${new URLSearchParams({ status })}`;
    const found = await listAll<Session>(client, `/v1/sessions${query}`, ({ id }) => id);
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map((each) => [
        each.id,
        each.name ?? "",
        each.status,
        String(each.exec_count),
        each.last_used_at,
        each.expires_at,
      ]);
      printTable(
        ["ID", "NAME", "STATUS", "COMMANDS", "LAST USED", "EXPIRES"],
        rows,
        "No sessions: make one with `verk sessions create`.",
      );
    }
    return EXIT.ok;
  },
});

const exec = command({
  summary: "Run a command in a session and show what it says; one argument is run by the shell",
  takes: ["session", "command…"],
  flags: {
    ...FLAGS,
    cwd: { type: "string", value: "DIR", doc: "Where (default: /workspace)" },
    env: ENV_FLAG,
    stdin: { type: "boolean", short: "i", doc: "Give it standard input, which is read to its end first" },
    timeout: { type: "string", value: "SECONDS", doc: "The longest it may take (default: 300)" },
  },
  examples: ["verk sessions exec ses_… -- python3 train.py --steps 10", "verk sessions exec ses_… 'ls | wc -l'"],
  exits: {
    1: "failed, or the command ended with 1",
    [INTERRUPTED]: "interrupted: the command is ended too",
    255: "any other code is the command's own, 128 and more a signal's",
  },
  async run({ json, cwd, env, stdin, timeout, ...where }, id = "", ...words) {
    const { client } = await connect(where);
    const body = {
      command: words.length === 1 ? words[0] : words,
      ...(cwd === undefined ? {} : { cwd }),
      env: envOf(env),
      stdin: stdin ? await Bun.stdin.text() : "",
      timeout_seconds: wholeOf("timeout", timeout),
    };
    const path = `/v1/sessions/${encodeURIComponent(id)}/exec`;
    return await interruptible(async (signal) => {
      if (!json) return codeOf(await follow(client, path, body, signal));
      const { body: told } = await client.call<Exec>("POST", path, body, { signal });
      printJson(told);
      return codeOf(told);
    });
  },
});

async function follow(client: Client, path: string, body: object, signal: AbortSignal): Promise<Exec> {
  for await (const { event, data } of client.stream(path, signal, { body: { ...body, stream: true } })) {
    if (event === "stdout") process.stdout.write((data as { data: string }).data);
    else if (event === "stderr") process.stderr.write((data as { data: string }).data);
    else if (event === "exit") return data as Exec;
  }
  throw new ApiError("The server ended the stream before the command did", 0);
}

function codeOf({ exit_code, signal, error, warning, truncated, volume_errors }: Exec): number {
  if (error !== null) note(`verk: ${error}`);
  if (warning !== null) note(`verk: ${warning}`);
  if (truncated) note("verk: it said more than is kept; the rest is dropped");
  for (const { volume, path, message } of volume_errors)
    note(`verk: not written back to ${volume}: ${path}${path === "" ? "" : ": "}${message}`);
  return exit_code ?? (signal === null ? EXIT.failed : 128 + signal);
}

/** `ses_…:/workspace/a.txt`, or `ses_…:a.txt`, which lies in /workspace. */
function remoteOf(text: string): { id: string; path: string } | undefined {
  const [, id, path] = /^(ses_[0-9a-z]+):(.*)$/s.exec(text) ?? [];
  if (id === undefined || path === undefined) return undefined;
  return { id, path: path.startsWith("/") ? path : `/workspace/${path}` };
}

const contentOf = ({ id, path }: { id: string; path: string }) =>
  `/v1/sessions/${id}/files/content?path=${encodeURIComponent(path)}`;

const cp = command({
  summary: "Copy one file into a session or out of it",
  takes: ["from", "to"],
  flags: SERVER_FLAGS,
  examples: ["verk sessions cp train.py ses_…:train.py", "verk sessions cp ses_…:/workspace/log.txt -"],
  exits: NONE,
  async run(where, from = "", to = "") {
    const [source, target] = [remoteOf(from), remoteOf(to)];
    if (!source === !target)
      throw new UsageError(`sessions cp: one end is a session (ses_…:a.txt), the other a file of this machine`);
    const { client } = await connect(where);
    return await interruptible(async (signal) => {
      const place = to.endsWith("/") ? to + basename(source?.path ?? "") : to;
      if (source) await (to === "-" ? toOutput : toFile(place))(client.download(contentOf(source), signal));
      else await sendFile(client, from, target as { id: string; path: string }, signal);
      return EXIT.ok;
    });
  },
});

async function sendFile(client: Client, from: string, target: { id: string; path: string }, signal: AbortSignal) {
  const source = await openSource(from);
  const path = target.path.endsWith("/") ? target.path + source.name : target.path;
  try {
    const raw = streamOf(source.chunks());
    await client.call("PUT", contentOf({ ...target, path }), undefined, { raw, signal });
  } finally {
    await source.close();
  }
}

const stop = command({
  summary: "Stop a session: its commands end, its files go",
  takes: ["session"],
  flags: FLAGS,
  examples: ["verk sessions stop ses_…"],
  exits: NONE,
  async run({ json, ...where }, id = "") {
    const { client } = await connect(where);
    const { body } = await client.call<Session>("POST", `/v1/sessions/${encodeURIComponent(id)}/stop`);
    if (json) printJson(body);
    else note(`${body.id} is ${body.status}.`);
    return EXIT.ok;
  },
});

export const sessions: Group = {
  summary: "Session sandboxes of a running server",
  subcommands: { create, list, exec, cp, stop },
};
