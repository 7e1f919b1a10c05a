/**
 * Parts of a support bundle. Only counts are taken from the database, never content. Every text then passes a redaction:
 * known forms of credentials, the secret settings, and the values of stored secrets.
 * NOT covered: a secret in the log that is none of these, such as a password in the error of a user's own program.
 */
import { Database } from "bun:sqlite";
import { existsSync, mkdtempSync, readdirSync, rmSync, statfsSync, statSync } from "node:fs";
import { cpus, freemem, machine, release, tmpdir, totalmem, uptime } from "node:os";
import { join } from "node:path";
import { REDACTED, redactText } from "../../../lib/text/redact.ts";
import { isoTime } from "../../../lib/time.ts";
import { VERSION } from "../../../lib/version.ts";
import { ambientEnv, type Config, printConfig, settingsInForce } from "../../../platform/config/config.ts";
import { isHeld } from "../../../platform/db/data_lock.ts";
import { readMasterKey } from "../../../platform/master_key.ts";
import { createSecretBox } from "../../../platform/secrets.ts";
import { examine, type Finding } from "../../doctor/check.ts";
import { hostChecks } from "../../doctor/host.ts";
import { storageChecks } from "../../doctor/storage.ts";
import { tlsChecks } from "../../doctor/tls.ts";

type Scene = { config: Config; file: string | undefined; log: string | undefined; nowMs: number };
type Part = { name: string; text: string };
const MOST_LOG_BYTES = 20 * 1024 * 1024;
const LOG_LINES = "20000";

export async function* partsOf(scene: Scene): AsyncGenerator<Part> {
  const { config } = scene;
  yield { name: "about.json", text: pretty(about(scene)) };
  yield { name: "config.json", text: pretty(printConfig(config)) };
  yield { name: "doctor.json", text: pretty(await findings(scene)) };
  yield { name: "database.json", text: pretty(attempted(() => databaseOf(join(config.data_dir, "verk.db")))) };
  yield { name: "files.json", text: pretty(attempted(() => filesOf(config.data_dir))) };
  yield { name: "server.log", text: await logOf(scene.log) };
}

const pretty = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

/** A part that cannot be read is itself a finding. */
function attempted<T>(read: () => T): T | { error: string } {
  try {
    return read();
  } catch (error) {
    return { error: String((error as Error).message) };
  }
}

function about({ config, nowMs }: Scene) {
  const { held, holder } = isHeld(config.data_dir);
  return {
    created_at: isoTime(nowMs),
    version: VERSION,
    platform: `${process.platform} ${machine()}`,
    kernel: release(),
    machine_uptime_seconds: Math.round(uptime()),
    cpus: cpus().length,
    cpu: cpus()[0]?.model,
    memory_bytes: totalmem(),
    free_memory_bytes: freemem(),
    server: held ? (holder ?? "starting") : null,
  };
}

/** The checks that are fast and change nothing. */
async function findings({ config, file }: Scene): Promise<Finding[]> {
  const probeDir = mkdtempSync(join(tmpdir(), "verk-support-"));
  try {
    const checks = [...storageChecks, ...hostChecks, ...tlsChecks];
    return await Promise.all(checks.map((check) => examine(check, { config, probeDir, file })));
  } finally {
    rmSync(probeDir, { recursive: true, force: true });
  }
}

function databaseOf(path: string) {
  if (!existsSync(path)) return null;
  const db = new Database(path, { readonly: true });
  try {
    const number = (sql: string) => Object.values(db.query(sql).get() as Record<string, number>)[0] ?? 0;
    const names = db
      .query<{ name: string }, []>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
      )
      .all()
      .map(({ name }) => name);
    const rows = Object.fromEntries(names.map((name) => [name, number(`SELECT count(*) FROM "${name}"`)]));
    const statuses = (table: string) =>
      attempted(() => db.query(`SELECT status, count(*) AS count FROM ${table} GROUP BY status`).all());
    return {
      schema: number("PRAGMA user_version"),
      bytes: number("PRAGMA page_count") * number("PRAGMA page_size"),
      training_jobs: statuses("training_jobs"),
      deployments: statuses("deployments"),
      rows,
    };
  } finally {
    db.close();
  }
}

/** Sizes of the entries of the data directory. Names below are content of users. */
function filesOf(dir: string) {
  const { bavail, bsize, blocks } = statfsSync(dir);
  const entries = readdirSync(dir).map((name) => {
    const stats = statSync(join(dir, name), { throwIfNoEntry: false });
    const inside = stats?.isDirectory() ? readdirSync(join(dir, name)).length : undefined;
    return {
      name,
      mode: stats && (stats.mode & 0o7777).toString(8),
      uid: stats?.uid,
      bytes: stats?.size,
      entries: inside,
    };
  });
  return { free_bytes: bavail * bsize, disk_bytes: blocks * bsize, entries };
}

async function logOf(file: string | undefined): Promise<string> {
  if (file !== undefined) {
    const content = Bun.file(file);
    return content.slice(Math.max(0, content.size - MOST_LOG_BYTES)).text();
  }
  if (Bun.which("journalctl") === null) return "There is no journalctl here: name the log with --log.\n";
  const words = ["journalctl", "--unit", "verk", "--lines", LOG_LINES, "--output", "cat", "--no-pager"];
  const child = Bun.spawn(words, { stdin: "ignore", stdout: "pipe", stderr: "pipe", env: ambientEnv() });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return out + err;
}

/** Replaces secrets in a text. Secrets that cannot be opened are not in it either: nothing else could decrypt them. */
export async function redactorFor(config: Config): Promise<(text: string) => string> {
  const { secretForms } = await import("../../offline.ts");
  const set = settingsInForce(config).filter(({ secret }) => secret);
  const values = [...set.map(({ path }) => valueAt(config, path)), ...(await storedSecrets(config))];
  const forms = secretForms(values);
  return (text) => redactText(forms.reduce((shown, form) => shown.replaceAll(form, REDACTED), text));
}

const valueAt = (config: Config, path: string): string =>
  String(path.split(".").reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], config) ?? "");

async function storedSecrets(config: Config): Promise<string[]> {
  const path = join(config.data_dir, "verk.db");
  if (!existsSync(path)) return [];
  try {
    const { openSecret } = await import("../../offline.ts");
    const master = readMasterKey(config.secrets.master_key_file);
    const db = new Database(path, { readonly: true });
    const rows = db
      .query<{ workspaceId: string; name: string; sealed: string }, []>(
        "SELECT workspace_id AS workspaceId, name, sealed FROM secrets",
      )
      .all();
    db.close();
    return master ? rows.map((row) => openSecret({ secrets: createSecretBox(master) }, row)) : [];
  } catch {
    return []; // a damaged database, or another master key
  }
}
