import { basename } from "node:path";
import { UsageError } from "../../../lib/errors.ts";
import type { Exec, Session } from "../../../resources/machines/sessions/schema.ts";
import { command, EXIT, type Group, SERVER_FLAGS, wholeOf } from "../../args.ts";
import { ApiError, type Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { INTERRUPTED, interruptible } from "../../interrupt.ts";
import { note, printJson } from "../../output.ts";
import { actionCommand, COMMON_FLAGS, createCommand, listCommand } from "../../resource_commands.ts";
import { streamOf } from "../../transfer/form.ts";
import { toFile, toOutput } from "../../transfer/sink.ts";
import { openSource } from "../../transfer/source.ts";

const NONE = { 1: "failed: there is no such session, or it has ended" };
const ENV_FLAG = {
  type: "string",
  value: "NAME=VALUE",
  multiple: true,
  doc: "Environment variable for commands; repeatable. Other users of this machine can see it",
} as const;

/** Reads `A=b` as { A: "b" }. */
function envOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) throw new UsageError(`--env: expected NAME=VALUE, not ${JSON.stringify(pair)}`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** Reads `lab:/workspace/data:rw`. */
function mountOf(text: string) {
  const [, name, mount_path, mode] = /^([^:]+):(\/[^:]*)(?::(ro|rw))?$/.exec(text) ?? [];
  if (name === undefined || mount_path === undefined)
    throw new UsageError(
      `--volume: expected NAME:/PATH, or NAME:/workspace/PATH:rw to write, not ${JSON.stringify(text)}`,
    );
  return { name, mount_path, read_only: mode !== "rw" };
}

const create = createCommand({
  summary: "Create a session",
  path: "/v1/sessions",
  flags: {
    name: { type: "string", value: "NAME", doc: "Name for your own use" },
    volume: {
      type: "string",
      value: "NAME:PATH[:rw]",
      multiple: true,
      doc: "Volume to mount at a path; rw only below /workspace; repeatable",
    },
    env: ENV_FLAG,
    timeout: { type: "string", value: "SECONDS", doc: "Lifetime of the session (default: the server's setting)" },
    idle: { type: "string", value: "SECONDS", doc: "Expire the session when it is unused for this long" },
    network: { type: "boolean", doc: "Allow network access, if the server permits it" },
  },
  examples: ["verk sessions create", "verk sessions create --volume lab:/data --env TOKEN=x"],
  fields: { timeout_seconds: "--timeout", idle_timeout_seconds: "--idle", volumes: "--volume", env: "--env" },
  exits: { 1: "failed: the server cannot create sessions, or does not allow it" },
  body: ({ name, volume, env, timeout, idle, network }) => ({
    name,
    volumes: volume.map(mountOf),
    env: envOf(env),
    network,
    timeout_seconds: wholeOf("timeout", timeout),
    idle_timeout_seconds: wholeOf("idle", idle),
  }),
  says: ({ id }: Session) => `Run a command in it with \`verk sessions exec ${id} -- ls -la\`.`,
});

const list = listCommand({
  summary: "List the sessions, newest first",
  examples: ["verk sessions list", "verk sessions list --status ready --json"],
  path: "/v1/sessions",
  flags: { status: { type: "string", value: "STATUS", doc: "Only sessions with this status, such as ready" } },
  query: ({ status }) => ({ status }),
  columns: {
    ID: ({ id }: Session) => id,
    NAME: ({ name }) => name ?? "",
    STATUS: ({ status }) => status,
    COMMANDS: ({ exec_count }) => String(exec_count),
    "LAST USED": ({ last_used_at }) => last_used_at,
    EXPIRES: ({ expires_at }) => expires_at,
  },
  empty: "No sessions. Create one with `verk sessions create`.",
});

const exec = command({
  summary: "Run a command in a session and show its output; a single argument is run by the shell",
  takes: ["session", "command…"],
  flags: {
    ...COMMON_FLAGS,
    cwd: { type: "string", value: "DIR", doc: "Working directory (default: /workspace)" },
    env: ENV_FLAG,
    stdin: { type: "boolean", short: "i", doc: "Pass standard input, which is read completely first" },
    timeout: { type: "string", value: "SECONDS", doc: "Timeout of the command (default: 300)" },
  },
  examples: ["verk sessions exec ses_… -- python3 train.py --steps 10", "verk sessions exec ses_… 'ls | wc -l'"],
  exits: {
    1: "failed, or the command exited with 1",
    [INTERRUPTED]: "interrupted: the command is killed",
    255: "any other code is the exit code of the command; 128 + N means signal N",
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
      const { body: result } = await client.call<Exec>("POST", path, body, { signal });
      printJson(result);
      return codeOf(result);
    });
  },
});

async function follow(client: Client, path: string, body: object, signal: AbortSignal): Promise<Exec> {
  for await (const { event, data } of client.stream(path, signal, { body: { ...body, stream: true } })) {
    if (event === "stdout") process.stdout.write((data as { data: string }).data);
    else if (event === "stderr") process.stderr.write((data as { data: string }).data);
    else if (event === "exit") return data as Exec;
  }
  throw new ApiError("The server closed the stream before the command ended", 0);
}

function codeOf({ exit_code, signal, error, warning, truncated, volume_errors }: Exec): number {
  if (error !== null) note(`verk: ${error}`);
  if (warning !== null) note(`verk: ${warning}`);
  if (truncated) note("verk: the output was too long; the rest was dropped");
  for (const { volume, path, message } of volume_errors)
    note(`verk: not written back to ${volume}: ${path}${path === "" ? "" : ": "}${message}`);
  return exit_code ?? (signal === null ? EXIT.failed : 128 + signal);
}

/** Reads `ses_…:/workspace/a.txt`. A relative path, as in `ses_…:a.txt`, is in /workspace. */
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
      throw new UsageError(
        "sessions cp: one argument must be a path in a session (ses_…:a.txt) and the other a local file",
      );
    const { client } = await connect(where);
    return await interruptible(async (signal) => {
      const file = to.endsWith("/") ? to + basename(source?.path ?? "") : to;
      if (source) await (to === "-" ? toOutput : toFile(file))(client.download(contentOf(source), signal));
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

const stop = actionCommand({
  summary: "Stop a session: its commands are killed and its files deleted",
  examples: ["verk sessions stop ses_…"],
  exits: NONE,
  takes: "session",
  path: "/v1/sessions",
  find: async (_, id) => ({ id }),
  action: "stop",
  says: ({ id, status }: Session) => `${id} is ${status}.`,
});

export const sessions: Group = {
  summary: "Run commands in sandboxes on a running server",
  subcommands: { create, list, exec, cp, stop },
};
