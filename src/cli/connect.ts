import { chownSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../lib/errors.ts";
import { ambientEnv, configFile, loadConfig } from "../platform/config/config.ts";
import { isHeld } from "../platform/db/data_lock.ts";
import { writeFileAtomicSync } from "../platform/files.ts";
import { self } from "../platform/workers/self.ts";
import { EXIT } from "./args.ts";
import { ApiError, type Client, createClient } from "./client.ts";

export type Where = { url?: string | undefined; data?: string | undefined; config?: string | undefined };
export type Connection = { url: string; client: Client };

/**
 * The server to talk to. A named one (--url, VERK_URL) wants VERK_API_KEY. Whoever may read the data directory of a
 * running server is its owner: without VERK_API_KEY a key of the default workspace is made once and kept beside the
 * master key, readable as that is. Root stays root, because the files that a command sends and writes may be root's.
 */
export async function connect(where: Where): Promise<Connection> {
  const env = ambientEnv();
  const key = env["VERK_API_KEY"] || undefined;
  const named = where.url ?? (env["VERK_URL"] || undefined);
  if (named !== undefined) {
    const url = addressOf(named);
    if (!key) throw new UsageError(`${url} wants a key: put it into the environment variable VERK_API_KEY.`);
    return { url, client: createClient({ url, key }) };
  }
  const { data_dir: dir } = loadConfig({ file: configFile(where.config), flags: { data_dir: where.data } });
  const url = runningOn(dir);
  return { url, client: createClient({ url, key: key ?? (await ownKey(dir, url, where)) }) };
}

function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UsageError(`--url: expected an address such as http://127.0.0.1:7070, not ${JSON.stringify(text)}`);
  return text.replace(/\/+$/, "").replace(/\/v1$/, "");
}

function runningOn(dir: string): string {
  const { held, holder } = isHeld(dir);
  if (!held || typeof holder?.listen !== "string")
    throw new UsageError(
      `No server runs on ${dir}: start one with \`verk serve\`, or name another with --url or --data.`,
      EXIT.failed,
    );
  return `http://${holder.listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:")}`;
}

const KEY_FILE = "cli.key";

/** The kept key, or a new one where there is none that the server takes. */
async function ownKey(dir: string, url: string, where: Where): Promise<string> {
  const path = join(dir, KEY_FILE);
  const kept = readIfAllowed(path);
  if (kept !== "" && !(await isRefused(url, kept))) return kept;
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
    return ""; // none yet, or one that somebody else left
  }
}

/** By a process of its own: as root it becomes the owner of the directory, and stays so. */
async function makeKey(dir: string, { config }: Where): Promise<string> {
  const args = ["keys", "create", "--name", "command line", "--data", dir, ...(config ? ["--config", config] : [])];
  const child = Bun.spawn(self(...args), { env: ambientEnv(), stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (child.exitCode !== 0) throw new UsageError(err.trim().replace(/^verk: /, ""), child.exitCode ?? EXIT.failed);
  return out.trim();
}

const isRefused = (url: string, key: string) =>
  createClient({ url, key })
    .call("GET", "/v1/account")
    .then(
      () => false,
      (error: unknown) => {
        if (error instanceof ApiError && error.status > 0) return error.status === 401;
        throw error;
      },
    );
