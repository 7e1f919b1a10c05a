/**
 * The log: states of the data directory between two backups. docs/adr/0051-log-of-changes.md has the reasons.
 * Models and checkpoints of jobs are not in it: a restored state takes those of the newest backup before it.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { newId, timeOf } from "../../lib/ids.ts";
import { failpoint } from "../failpoint.ts";
import { type BackupOptions, CURRENT_ADAPTATION, copyState, manifestOf, newCopies, type Take } from "./create.ts";
import type { BackupFile, LogEntry, Manifest } from "./manifest.ts";
import { type KnownPages, patchOf, rememberPages } from "./pages.ts";
import type { Repository } from "./repository.ts";
import { type Counter, readChunks } from "./source.ts";

/** After so many entries the log begins anew with a list of all files, so that no entry is long. */
export const MOST_ENTRIES = 500;

type LogOptions = Omit<BackupOptions, "nowMs" | "models" | "jobs" | "unchecked">;
export type Logged = { id: string; created_at: string; storedBytes: number };

/** Copies changes each time that it is called. Keep it: without its memory the next copy stores whole files. */
export function openLog(options: LogOptions) {
  const { repository, dataDir } = options;
  const pages = new Map<string, KnownPages>();
  const kept = newCopies();
  let base: LogEntry | undefined;
  let copiedMark = "";

  const counter: Counter = { storedBytes: 0 };
  const take: Take = async (from, path) => {
    if (path !== "verk.db" && !path.startsWith("datasets/")) return readChunks(repository, from, path, counter);
    const previous = pages.get(path);
    const next = previous && (await patchOf(repository, from, previous));
    if (next) {
      pages.set(path, next);
      counter.storedBytes += next.patchBytes - previous.patchBytes;
      return next.file;
    }
    const file = await readChunks(repository, from, path, counter);
    if (file) pages.set(path, await rememberPages(from, file));
    return file;
  };

  /** Undefined: nothing changed since the last call. */
  return async function append(nowMs: number): Promise<Logged | undefined> {
    const mark = markOf(dataDir);
    if (base && mark === copiedMark) return undefined;
    if (!base) kept.storage = await storedObjects(repository);
    counter.storedBytes = 0;
    const id = newId("bkp", nowMs);
    const sealer = base ? undefined : options.sealer; // the keys are in the first entry
    const all = { ...options, nowMs, sealer, models: false, jobs: false, unchecked: true };
    const whole = await manifestOf(all, id, await copyState(all, kept, take));
    const entry: LogEntry = base
      ? { ...whole, base: base.id, ...difference(base.files, whole.files) }
      : { ...whole, base: null, removed: [] };
    failpoint("backup.before_log_entry");
    await repository.putLogEntry(entry);
    base ??= entry;
    copiedMark = mark;
    return { id, created_at: entry.created_at, storedBytes: counter.storedBytes };
  };
}

/** Changes with every commit and with every change of the adaptation in use: sizes and times of their files. */
function markOf(dataDir: string): string {
  const parts = ["verk.db", "verk.db-wal", CURRENT_ADAPTATION].map((path) =>
    statSync(join(dataDir, path), { bigint: true, throwIfNoEntry: false }),
  );
  return parts.map((stats) => `${stats?.ino} ${stats?.size} ${stats?.mtimeNs}`).join();
}

/** Objects are named by their hash, so those of the newest backup and of the log need not be read again. */
async function storedObjects(repository: Repository): Promise<Map<string, BackupFile>> {
  const objects = new Map<string, BackupFile>();
  const [backup, entry] = [(await repository.list()).at(-1), (await repository.listLog()).at(-1)];
  const files = [
    ...(backup === undefined ? [] : (await repository.getManifest(backup)).files),
    ...(entry === undefined ? [] : (await wholeEntry(repository, entry)).files),
  ];
  for (const file of files) if (file.path.startsWith("storage/objects/")) objects.set(file.path, file);
  return objects;
}

function difference(before: readonly BackupFile[], now: readonly BackupFile[]) {
  const texts = new Map(before.map((file) => [file.path, JSON.stringify(file)]));
  const files = now.filter((file) => texts.get(file.path) !== JSON.stringify(file));
  const here = new Set(now.map(({ path }) => path));
  return { files, removed: before.map(({ path }) => path).filter((path) => !here.has(path)) };
}

/** An entry with all files, and with the keys and the id of its base: the keys are bound to that id. */
async function wholeEntry(repository: Repository, id: string): Promise<Manifest> {
  const entry = await repository.getLogEntry(id);
  const base = entry?.base ? await repository.getLogEntry(entry.base) : entry;
  if (!entry || !base) throw new UsageError(`The entry ${id} of the log is not complete`, 1);
  const { base: _, removed, files: changed, ...about } = entry;
  const files = new Map(base.files.map((file) => [file.path, file]));
  for (const path of removed) files.delete(path);
  for (const file of changed) files.set(file.path, file);
  return { ...about, id: base.id, keys: base.keys, files: [...files.values()] };
}

/** The newest state that was copied at `atMs` or before: an entry of the log or a backup. */
export async function stateAt(repository: Repository, atMs: number): Promise<Manifest> {
  const newest = (ids: readonly string[]) => ids.findLast((id) => timeOf(id) <= atMs);
  const backupId = newest(await repository.list());
  const logId = newest(await repository.listLog());
  const backup = backupId === undefined ? undefined : await repository.getManifest(backupId);
  if (logId === undefined || (backupId !== undefined && backupId > logId)) {
    if (backup) return backup;
    throw new UsageError("There is no backup from that time or before");
  }
  const state = await wholeEntry(repository, logId);
  const apart = (backup?.files ?? []).filter(({ path }) => /^(models|jobs)\//.test(path));
  const without = state.without.filter((part) => part === "storage" || !backup || backup.without.includes(part));
  return { ...state, without, files: [...state.files, ...apart] };
}
