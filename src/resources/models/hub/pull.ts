/**
 * The loop `models.download`: every row that is `downloading` is being downloaded, a few at a time. The row is the
 * truth: a restart goes on with what it says, and one that is deleted ends its download within a second.
 */
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { write } from "../../../platform/db/db.ts";
import { StorageError } from "../../../platform/files.ts";
import { lacksRoom } from "../../storage_usage/service.ts";
import { FOLDER, HUB } from "../files/folder.ts";
import { otherAt, removeStaleParts } from "../files/sweep.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { checkWhole, download, type Fetched, partPath, type Wanted } from "./download.ts";
import { chooseFile, HubError, type HubFile, listFiles } from "./hub.ts";
import { parseHubName } from "./name.ts";
import { hubTokenOf } from "./token.ts";

const AT_ONCE = 2;
const LOOK_MS = 1_000;
const ATTEMPTS = 5; // in a row without a byte of progress
const FIRST_PAUSE_MS = 1_000;

type Task = {
  row: ModelRow;
  stop: AbortController;
  signal: AbortSignal;
  busy: Set<string>;
  progress: number;
  told: number;
  over: Promise<void>;
};
const DONE = Promise.resolve();

export async function pullAll(ctx: Ctx, signal: AbortSignal) {
  const tasks = new Map<string, Task>();
  const busy = new Set<string>(); // parts that a task writes
  const bell = { ring: () => {} };
  await removeStaleParts(ctx);
  try {
    for (;;) {
      const due = downloading(ctx);
      for (const [id, task] of tasks) if (!due.some((row) => row.id === id)) task.stop.abort();
      for (const row of due)
        if (!tasks.has(row.id) && tasks.size < AT_ONCE) {
          const task = start(ctx, row, busy, signal);
          tasks.set(row.id, task);
          void task.over.finally(() => {
            tasks.delete(row.id);
            bell.ring();
          });
        }
      if (tasks.size === 0 || signal.aborted) return;
      const rung = new AbortController();
      bell.ring = () => rung.abort();
      await ctx.clock.sleep(LOOK_MS, AbortSignal.any([signal, rung.signal]));
      tellProgress(ctx, tasks);
    }
  } finally {
    for (const task of tasks.values()) task.stop.abort();
    await Promise.all([...tasks.values()].map((task) => task.over));
  }
}

const downloading = (ctx: Ctx): ModelRow[] =>
  ctx.db
    .select()
    .from(table)
    .where(and(eq(table.status, "downloading"), eq(table.source, "hub")))
    .orderBy(table.createdAt)
    .all();

function start(ctx: Ctx, row: ModelRow, busy: Set<string>, closing: AbortSignal): Task {
  const stop = new AbortController();
  const signal = AbortSignal.any([closing, stop.signal]);
  const task: Task = { row, stop, signal, busy, progress: row.progress ?? 0, told: row.progress ?? 0, over: DONE };
  task.over = persist(ctx, task)
    .catch((error) => giveUp(ctx, task, error))
    .catch((error) => {
      ctx.log.error("a download's end was not recorded", { model: row.id, error });
      return ctx.clock.sleep(LOOK_MS, signal); // it is due again at once
    });
  return task;
}

/** What has arrived stays, whatever broke after. */
function giveUp(ctx: Ctx, { row, signal }: Task, error: unknown) {
  if (signal.aborted) return;
  const known = error instanceof HubError || error instanceof StorageError;
  if (!known) ctx.log.error("a download broke", { model: row.id, error });
  const message = error instanceof StorageError ? error.advice : known ? error.message : "The download broke";
  if (statusOf(ctx, row.id) === "downloading")
    write(ctx.db, (tx) => models.refuse(tx, row.id, message, ctx.clock.now()));
}

/** Tries again after passing trouble; each byte of progress buys new patience. */
async function persist(ctx: Ctx, task: Task) {
  const { row, signal } = task;
  for (let failures = 0; ; ) {
    const before = task.progress;
    try {
      return await fetchOne(ctx, task);
    } catch (error) {
      signal.throwIfAborted();
      failures = task.progress > before ? 1 : failures + 1;
      if (!(error instanceof HubError && error.passing) || failures >= ATTEMPTS) throw error;
      ctx.log.warn("a download was interrupted", { model: row.id, failures, error: error.message });
      await ctx.clock.sleep(FIRST_PAUSE_MS * 2 ** (failures - 1), signal);
    }
  }
}

async function fetchOne(ctx: Ctx, task: Task) {
  const { row, busy, signal } = task;
  if (ctx.config.offline)
    throw new HubError("offline = true forbids to download: import the file with `verk models import FILE`", false);
  const name = parseHubName(row.name);
  if (!name) throw new HubError(`${row.name} is no name on a hub`, false);
  if (row.workspaceId === null) throw new Error(`${row.id} is to be fetched for no workspace`);
  const token = hubTokenOf(ctx, row.workspaceId);
  const file = chooseFile(name.repo, await listFiles(ctx, name.repo, { token, signal }), name.file);
  if (file.size === 0) throw new HubError(`The hub does not tell how large ${file.path} is`, false);
  const part = partPath(ctx, { repo: name.repo, file });
  while (busy.has(part)) await ctx.clock.sleep(LOOK_MS, signal); // for another workspace
  signal.throwIfAborted();
  busy.add(part);
  try {
    const wanted = { repo: name.repo, file, target: targetOf(ctx, row.id, name.repo, file) };
    reserve(ctx, row, file);
    const onProgress = (fraction: number) => {
      task.progress = fraction;
    };
    const fetched = (await alreadyHere(ctx, wanted)) ?? (await download(ctx, wanted, { signal, token, onProgress }));
    write(ctx.db, (tx) => models.accept(tx, row.id, { ...fetched, path: wanted.target }, ctx.clock.now()));
    if (statusOf(ctx, row.id) === "deleted" && !otherAt(ctx, wanted.target, row.id))
      await rm(join(ctx.config.data_dir, wanted.target), { force: true }); // deleted while it was checked
  } finally {
    if (statusOf(ctx, row.id) === "deleted") await rm(part, { force: true });
    busy.delete(part); // from here on another may write it
  }
}

/** Its size counts for the workspace from here on, before the first byte is here. */
function reserve(ctx: Ctx, { id, workspaceId, sizeBytes }: ModelRow, file: HubFile) {
  const why = workspaceId && lacksRoom(ctx, { workspaceId, kind: "models" }, file.size - (sizeBytes ?? 0));
  if (why) throw new HubError(`${file.path} has ${file.size} bytes and cannot be kept: ${why}`, false);
  write(ctx.db, (tx) =>
    tx.update(table).set({ hubFile: file.path, sizeBytes: file.size }).where(eq(table.id, id)).run(),
  );
}

const statusOf = (ctx: Ctx, id: string) => ctx.db.select().from(table).where(eq(table.id, id)).get()?.status;

/** Another version of the file may be in use by another row under the plain name. */
function targetOf(ctx: Ctx, id: string, repo: string, file: Wanted["file"]): string {
  const plain = join(FOLDER, HUB, repo, file.path);
  const other = otherAt(ctx, plain, id);
  if (!other || other.sha256 === file.sha256) return plain;
  return plain.replace(/\.gguf$/i, `-${(file.sha256 ?? id).slice(0, 12)}.gguf`);
}

/** Fetched for another workspace, or by this server before it was killed. */
async function alreadyHere(ctx: Ctx, { file, target }: Wanted): Promise<Fetched | undefined> {
  const path = join(ctx.config.data_dir, target);
  const there = await stat(path).catch(() => undefined);
  if (there?.size !== file.size || file.sha256 === null) return undefined;
  const found = await checkWhole(ctx, path, file).catch(() => undefined); // damaged: the hub's is better
  return found && { ...found, fileMtimeMs: Math.floor(there.mtimeMs) };
}

function tellProgress(ctx: Ctx, tasks: ReadonlyMap<string, Task>) {
  for (const [id, task] of tasks) {
    if (task.progress === task.told) continue;
    task.told = task.progress;
    write(ctx.db, (tx) => tx.update(table).set({ progress: task.progress }).where(eq(table.id, id)).run());
  }
}
