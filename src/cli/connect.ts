import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../lib/errors.ts";
import { ambientEnv, type Config } from "../platform/config.ts";
import { isHeld } from "../platform/data_lock.ts";
import { writeFileAtomicSync } from "../platform/files.ts";
import { EXIT } from "./args.ts";
import { ApiError, type Client, createClient } from "./client.ts";
import { settingsOf } from "./settings.ts";

export type Where = { url?: string | undefined; data?: string | undefined; config?: string | undefined };
export type Connection = { url: string; client: Client };

/**
 * The server to talk to. A named one (--url, VERK_URL) wants VERK_API_KEY. Whoever may read the data directory of a
 * running server is its owner: without VERK_API_KEY a key of the default workspace is made once and kept beside the
 * master key, readable as that is.
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
  const settings = settingsOf(where);
  const url = runningOn(settings.data_dir);
  return { url, client: createClient({ url, key: key ?? (await ownKey(settings, url)) }) };
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
async function ownKey(settings: Config, url: string): Promise<string> {
  const path = join(settings.data_dir, KEY_FILE);
  const kept = existsSync(path) ? readFileSync(path, "utf8").trim() : "";
  if (kept !== "" && !(await isRefused(url, kept))) return kept;
  const { DEFAULT_WORKSPACE, keys, mustFindWorkspace, offline } = await import("./offline.ts");
  const { key } = await offline(settings, (ctx) =>
    keys.create(ctx, mustFindWorkspace(ctx, DEFAULT_WORKSPACE).id, {
      name: "command line",
      scopes: ["*"],
      expires_at: null,
      monthly_budget_usd: null,
      metadata: {},
    }),
  );
  writeFileAtomicSync(path, `${key}\n`, { mode: 0o600 });
  return key;
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
