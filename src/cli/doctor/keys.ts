import { Database, SQLiteError } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expiresSoon, isoTime } from "../../lib/time.ts";
import { count } from "../output.ts";
import { type Check, ok, type Scene, warn } from "./check.ts";

export const keyChecks: readonly Check[] = [{ name: "API keys", run: apiKeys }];

type Key = { id: string; name: string; workspace: string; created_at: number; expires_at: number | null };
const SHOWN = 3;

/** Programs stop when their key expires, often long after its maker has forgotten it. */
function apiKeys({ config }: Scene) {
  const path = join(config.data_dir, "verk.db");
  if (!existsSync(path)) return ok("none yet");
  const db = new Database(path, { readonly: true });
  try {
    db.run(`PRAGMA busy_timeout = ${config.db.busy_timeout_ms}`);
    const now = Date.now();
    const keys = db
      .query<Key, [number]>(
        `SELECT k.id, k.name, w.name AS workspace, k.created_at, k.expires_at FROM api_keys k
           JOIN workspaces w ON w.id = k.workspace_id
         WHERE k.status = 'active' AND k.prefix <> '' AND (k.expires_at IS NULL OR k.expires_at > ?) ORDER BY k.expires_at`,
      )
      .all(now);
    const soon = keys.filter((key) => expiresSoon(key.created_at, key.expires_at, now));
    if (soon.length === 0) return ok(`${count(keys.length, "active key")}, none expires soon`);
    const shown = soon
      .slice(0, SHOWN)
      .map((key) => `${key.name} (${key.id}) on ${isoTime(key.expires_at ?? 0).slice(0, 10)}`);
    const more = soon.length > SHOWN ? ` and ${soon.length - SHOWN} more` : "";
    const { id, workspace } = soon[0] as Key;
    return warn(
      `${count(soon.length, "key")} will expire soon: ${shown.join(", ")}${more}`,
      `verk keys rotate ${id} --workspace ${workspace}: the new key has the same scopes and the same life`,
    );
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error;
    return ok("not read: see the check of the database"); // damaged, or of a version that has other columns
  } finally {
    db.close();
  }
}
