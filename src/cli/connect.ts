import { chownSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { COMMAND_LINE_KEY } from "../lib/command_line_key.ts";
import { UsageError } from "../lib/errors.ts";
import { ambientEnv } from "../platform/config/config.ts";
import { isHeld } from "../platform/db/data_lock.ts";
import { writeFileAtomicSync } from "../platform/files.ts";
import { self } from "../platform/workers/self.ts";
import { EXIT } from "./args.ts";
import { ApiError, type Client, createClient, useSocket } from "./client.ts";
import { settingsOf } from "./settings.ts";

export type ServerOptions = { url?: string | undefined; data?: string | undefined; config?: string | undefined };
export type Connection = { url: string; client: Client };

/**
 * Finds the server to talk to. A server named with --url or VERK_URL requires VERK_API_KEY. A user who may read the data
 * directory of a running server owns it. Without VERK_API_KEY a key of the default workspace is created once and stored
 * beside the master key with the same permissions. Root stays root here: the command may read and write root's files.
 */
export async function connect(where: ServerOptions): Promise<Connection> {
  const env = ambientEnv();
  const key = env["VERK_API_KEY"] || undefined;
  const named = where.url ?? (env["VERK_URL"] || undefined);
  if (named !== undefined) {
    const url = addressOf(named);
    if (!key) throw new UsageError(`${url} requires an API key. Set the environment variable VERK_API_KEY to it.`);
    return { url, client: createClient({ url, key }) };
  }
  const { data_dir: dir } = settingsOf(where);
  const url = runningOn(dir);
  return { url, client: createClient({ url, key: key ?? (await ownKey(dir, url, where)) }) };
}

/** A connection without the making of a key. Throws where there is no server or no key. */
export function existingConnection(): Connection {
  const env = ambientEnv();
  const named = env["VERK_URL"] || undefined;
  const { data_dir: dir } = settingsOf({});
  const key = env["VERK_API_KEY"] || (named === undefined ? readIfAllowed(join(dir, KEY_FILE)) : "");
  if (key === "") throw new UsageError("There is no key yet: the first command that talks to the server makes one");
  const url = named === undefined ? runningOn(dir) : addressOf(named);
  return { url, client: createClient({ url, key }) };
}

function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UsageError(
      `--url or VERK_URL: expected an address such as http://127.0.0.1:7070, not ${JSON.stringify(text)}`,
    );
  return text.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/** A server with TLS gives commands of this machine a socket, so that they need no certificate (src/http/host.ts). */
const SOCKET_ORIGIN = "http://socket.localhost";

function runningOn(dir: string): string {
  const { held, holder } = isHeld(dir);
  if (!held || typeof holder?.listen !== "string")
    throw new UsageError(
      `No server runs on the data directory ${dir}. Start one with \`verk serve\` in another terminal, or name another server with --url or another directory with --data.`,
      EXIT.failed,
    );
  if (typeof holder.socket === "string") {
    useSocket(SOCKET_ORIGIN, holder.socket);
    return SOCKET_ORIGIN;
  }
  return `http://${holder.listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:")}`;
}

const KEY_FILE = "cli.key";

/** The stored key, or a new key if none is stored or the server rejects the stored one. */
async function ownKey(dir: string, url: string, where: ServerOptions): Promise<string> {
  const path = join(dir, KEY_FILE);
  const stored = readIfAllowed(path);
  if (stored !== "" && !(await isRejected(url, stored))) return stored;
  const key = await makeKey(dir, where);
  writeFileAtomicSync(path, `${key}\n`, { mode: 0o600 });
  const { uid, gid } = statSync(dir);
  if (process.getuid?.() === 0) chownSync(path, uid, gid);
  return key;
}

function readIfAllowed(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return ""; // there is no key yet, or this user may not read it
  }
}

/** Runs in a child process: as root it switches to the owner of the directory and cannot switch back. */
async function makeKey(dir: string, { config }: ServerOptions): Promise<string> {
  const args = ["keys", "create", "--name", COMMAND_LINE_KEY, "--data", dir, ...(config ? ["--config", config] : [])];
  const child = Bun.spawn(self(...args), { env: ambientEnv(), stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (child.exitCode !== 0) throw new UsageError(err.trim().replace(/^verk: /, ""), child.exitCode ?? EXIT.failed);
  return out.trim();
}

const isRejected = (url: string, key: string) =>
  createClient({ url, key })
    .call("GET", "/v1/account")
    .then(
      () => false,
      (error: unknown) => {
        if (error instanceof ApiError && error.status > 0) return error.status === 401;
        throw error;
      },
    );
