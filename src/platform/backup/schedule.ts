/** Makes backups by `backup.schedule`. The newest backup at the target says when the last one was made. */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { Cron } from "croner";
import { timeOf } from "../../lib/ids.ts";
import { isoTime } from "../../lib/time.ts";
import { HOUR_MS, MINUTE_MS } from "../../lib/units.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import type { Log } from "../log.ts";
import { self } from "../workers/self.ts";
import { openTarget } from "./open.ts";
import { openRepository } from "./repository.ts";

const RETRY_MS = 10 * MINUTE_MS;
const LATE_MS = HOUR_MS;

/** The server's knowledge of its backups. The first tick reads it from the target. */
export class BackupState {
  /** When the newest backup was made, in milliseconds; undefined: none, or not read yet. */
  lastAt: number | undefined;
  isRead = false;
  /** On the steady clock. */
  failedAt = Number.NEGATIVE_INFINITY;
  /** The time of the newest state in the log, in milliseconds. */
  loggedAt: number | undefined;
}

type Parts = { config: Config; clock: Clock; log: Log; state: { backup: BackupState } };

/** `lastAt`: when the newest backup was made. `next` is in the past if a backup is due. */
export function dueAt(pattern: string, lastAt: number | undefined, nowMs: number) {
  const nextAt = nextRun(pattern, lastAt, nowMs);
  const late = nowMs - nextAt > LATE_MS || nextAt === nowMs;
  return { last: lastAt === undefined ? null : isoTime(lastAt), next: isoTime(nextAt), late };
}

/** Without a backup the first one is due at once, and so is one after a backup that a wrong clock put ahead. */
function nextRun(pattern: string, lastAt: number | undefined, nowMs: number): number {
  if (lastAt === undefined || lastAt > nowMs + LATE_MS) return nowMs;
  return new Cron(pattern, { paused: true, timezone: "UTC" }).nextRun(new Date(lastAt))?.getTime() ?? Infinity;
}

/** One tick of the server: makes a backup if one is due. A failed backup is tried again after ten minutes. */
export async function backUpWhenDue({ config, clock, log, state: { backup } }: Parts, signal: AbortSignal) {
  const { schedule, target, keep } = config.backup;
  const nowMs = clock.now();
  if (schedule === "" || clock.steady() - backup.failedAt < RETRY_MS) return;
  try {
    if (!backup.isRead) {
      const ids = await openRepository(await openTarget(target, config, { create: true })).list();
      const newest = ids.findLast((id) => timeOf(id) <= nowMs + LATE_MS);
      backup.lastAt = newest === undefined ? undefined : timeOf(newest);
      backup.isRead = true;
    }
    if (nextRun(schedule, backup.lastAt, nowMs) > nowMs) return;
    const id = await runCreate(config, keep, signal);
    backup.lastAt = timeOf(id);
    log.info("a backup was made", { backup: id, target });
  } catch (error) {
    if (signal.aborted) return; // the server stops, and the next start finds the backup due
    backup.failedAt = clock.steady();
    log.error("the backup failed; it is tried again in 10 minutes", { target, error: (error as Error).message });
  }
}

/** Runs until the server stops: a process of its own copies the changes to the target. It ends if this process is killed. */
export async function followChanges({ config, log, state: { backup } }: Parts, signal: AbortSignal) {
  const { schedule, target, log_seconds: seconds } = config.backup;
  if (schedule === "" || seconds === 0 || signal.aborted) return;
  const words = ["backup", "follow", "--stdin", "--data", config.data_dir, ...keyWords(config)];
  const child = Bun.spawn(self(...words), {
    env: envOf(config),
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    signal,
  });
  const errors = new Response(child.stderr).text();
  for await (const line of createInterface({ input: Readable.fromWeb(child.stdout as never) })) {
    if (backup.loggedAt === undefined) log.info("changes are copied to the backups", { target, seconds });
    backup.loggedAt = Date.parse((JSON.parse(line) as { created_at: string }).created_at);
  }
  const code = await child.exited;
  if (!signal.aborted) throw new Error((await errors).trim().slice(-1000) || `verk backup follow ended with ${code}`);
}

const keyWords = ({ backup }: Config) =>
  backup.passphrase_file === "" && backup.recipient_file === "" ? ["--without-keys"] : [];

/** A process of its own: hashing would delay requests, and reading the database file would end the locks of this process. */
async function runCreate(config: Config, keep: number, signal: AbortSignal): Promise<string> {
  const child = Bun.spawn(
    self("backup", "create", "--json", "--data", config.data_dir, "--keep", String(keep), ...keyWords(config)),
    { env: envOf(config), stdin: "ignore", stdout: "pipe", stderr: "pipe", signal },
  );
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(err.trim().slice(-1000) || `verk backup create ended with ${code}`);
  return (JSON.parse(out) as { id: string }).id;
}

/** The settings that the command needs, because flags and the environment of the server may have set them. */
function envOf(config: Config): Record<string, string> {
  const env: Record<string, string> = { PATH: "/usr/bin:/bin", HOME: config.data_dir };
  for (const [name, value] of Object.entries(config.backup)) env[`VERK_BACKUP__${name.toUpperCase()}`] = String(value);
  env["VERK_SECRETS__MASTER_KEY_FILE"] = config.secrets.master_key_file;
  env["VERK_STORAGE__KIND"] = config.storage.kind;
  env["VERK_STORAGE__S3_BUCKET"] = config.storage.s3_bucket;
  env["VERK_NETWORK__CA_FILE"] = config.network.ca_file;
  return env;
}
