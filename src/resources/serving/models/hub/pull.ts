/**
 * The loop `models.download` downloads every row that is `downloading`, a few at a time. The rows are the truth: after
 * a restart the downloads go on, and deleting a row ends its download within a second.
 */
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { write } from "../../../../platform/db/db.ts";
import { oldestOfEach } from "../../../../platform/db/oldest_of_each.ts";
import { StorageError } from "../../../../platform/files.ts";
import { lacksRoom } from "../../../data/storage_usage/service.ts";
import { FOLDER, HUB } from "../files/folder.ts";
import { otherAt, removeStaleParts } from "../files/sweep.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { type Choice, chooseFiles } from "./choose.ts";
import { checkWhole, download, type Fetched, type HubDownload, partPath, type Watch } from "./download.ts";
import { downloadSet, madeBefore, setOf } from "./download_set.ts";
import { HubError, listFiles } from "./hub.ts";
import { parseHubName } from "./name.ts";
import { hubTokenOf } from "./token.ts";

const CHECK_MS = 1_000;
const ATTEMPTS = 5; // in a row without progress
const FIRST_PAUSE_MS = 1_000;

type Task = {
  row: HubRow;
  stop: AbortController;
  signal: AbortSignal;
  busy: Set<string>;
  progress: number;
  saved: number;
  over: Promise<void>;
};
type HubRow = ModelRow & { workspaceId: string };
const DONE = Promise.resolve();

export async function pullAll(ctx: Ctx, signal: AbortSignal) {
  const { downloads } = ctx.state.models;
  const tasks = new Map<string, Task>();
  const busy = new Set<string>(); // parts that a task writes
  const bell = { ring: () => {} };
  await removeStaleParts(ctx);
  try {
    for (;;) {
      const due = downloading(ctx.db).all({ most: downloads.permits });
      for (const [id, task] of tasks) if (statusOf(ctx, id) !== "downloading") task.stop.abort();
      const idle = due.filter(({ id }) => !tasks.has(id));
      downloads.fillFrom(idle, (row, release) => {
        const task = start(ctx, row, busy, signal);
        tasks.set(row.id, task);
        void task.over.finally(() => {
          tasks.delete(row.id);
          release();
          bell.ring();
        });
      });
      if (tasks.size === 0 || signal.aborted) return;
      const rung = new AbortController();
      bell.ring = () => rung.abort();
      await ctx.clock.sleep(CHECK_MS, AbortSignal.any([signal, rung.signal]));
      saveProgress(ctx, tasks);
    }
  } finally {
    for (const task of tasks.values()) task.stop.abort();
    await Promise.all([...tasks.values()].map((task) => task.over));
  }
}

const downloading = oldestOfEach(table, eq(table.status, "downloading"), eq(table.source, "hub"));

function start(ctx: Ctx, row: HubRow, busy: Set<string>, closing: AbortSignal): Task {
  const stop = new AbortController();
  const signal = AbortSignal.any([closing, stop.signal]);
  const task: Task = { row, stop, signal, busy, progress: row.progress ?? 0, saved: row.progress ?? 0, over: DONE };
  task.over = fetchWithRetries(ctx, task)
    .catch((error) => giveUp(ctx, task, error))
    .catch((error) => {
      ctx.log.error("a download's end was not recorded", { model: row.id, error });
      return ctx.clock.sleep(CHECK_MS, signal); // the row is due again at once
    });
  return task;
}

/** The received part stays. */
function giveUp(ctx: Ctx, { row, signal }: Task, error: unknown) {
  if (signal.aborted) return;
  const isExpected = error instanceof HubError || error instanceof StorageError || error instanceof AppError;
  if (!isExpected) ctx.log.error("a download failed", { model: row.id, error });
  const message =
    error instanceof StorageError
      ? error.advice
      : isExpected
        ? error.message
        : "The download failed: see the server's log";
  if (statusOf(ctx, row.id) === "downloading")
    write(ctx.db, (tx) => models.refuse(tx, row.id, message, ctx.clock.now()));
}

/** Retries after a passing error. Each progress starts the count of attempts again. */
async function fetchWithRetries(ctx: Ctx, task: Task) {
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
    throw new HubError("offline = true forbids downloads: import the file with `verk models import FILE`", false);
  const name = parseHubName(row.hubName ?? "");
  if (!name) throw new HubError(`${row.hubName} is no hub name: use owner/repo or owner/repo:QUANT`, false);
  const token = hubTokenOf(ctx, row.workspaceId);
  const listed = await listFiles(ctx, name.repo, { token, signal, workspaceId: row.workspaceId });
  const choice = chooseFiles(name.repo, listed, name.file);
  const unknown = choice.files.find(({ size }) => size === 0);
  if (unknown) throw new HubError(`The hub does not list the size of ${unknown.path}`, false);
  const work = choice.kind === "file" ? fileWork(ctx, row, name.repo, choice) : setWork(ctx, row, name.repo, choice);
  const { part, target } = work;
  while (busy.has(part)) {
    await ctx.clock.sleep(CHECK_MS, signal); // another workspace downloads it
    signal.throwIfAborted(); // here, because an ended sleep returns at once: the loop would let nothing else run
  }
  busy.add(part);
  try {
    reserve(ctx, row, choice);
    const onProgress = (fraction: number) => {
      task.progress = fraction;
    };
    const here = await work.alreadyHere();
    if (here) await rm(part, { recursive: true, force: true }); // a crash after the last rename leaves it
    const fetched = here ?? (await work.download({ signal, token, onProgress }));
    write(ctx.db, (tx) => models.accept(tx, row.id, { ...fetched, path: target }, ctx.clock.now()));
    if (statusOf(ctx, row.id) === "deleted" && !otherAt(ctx, target, row.id))
      await rm(join(ctx.config.data_dir, target), { force: true }); // the row was deleted during the check
  } finally {
    if (statusOf(ctx, row.id) === "deleted") await rm(part, { recursive: true, force: true });
    busy.delete(part); // from here on another may write it
  }
}

/** `part` is where the received bytes lie, a file or a folder. `target` is the model's file. */
type Work = {
  part: string;
  target: string;
  alreadyHere: () => Promise<Fetched | undefined>;
  download: (watch: Watch) => Promise<Fetched>;
};

function fileWork(ctx: Ctx, row: HubRow, repo: string, { files }: Choice): Work {
  const [file] = files;
  if (!file) throw new Error(`${repo}: no file was chosen`);
  const task = { workspaceId: row.workspaceId, repo, file, target: targetOf(ctx, row.id, repo, file) };
  return {
    part: partPath(ctx, task),
    target: task.target,
    alreadyHere: () => alreadyHere(ctx, task),
    download: (watch) => download(ctx, task, watch),
  };
}

function setWork(ctx: Ctx, { workspaceId }: HubRow, repo: string, choice: Choice): Work {
  const set = setOf(ctx, workspaceId, repo, choice);
  const { part, target } = set;
  return {
    part,
    target,
    alreadyHere: () => madeBefore(ctx, set),
    download: (watch) => downloadSet(ctx, set, watch),
  };
}

/** The size counts for the quota of the workspace from here on. */
function reserve(ctx: Ctx, { id, workspaceId, sizeBytes }: ModelRow, { main, size }: Choice) {
  const why = workspaceId && lacksRoom(ctx, { workspaceId, kind: "models" }, size - (sizeBytes ?? 0));
  if (why) throw new HubError(`${main} has ${size} bytes and cannot be stored: ${why}`, false);
  write(ctx.db, (tx) => tx.update(table).set({ hubFile: main, sizeBytes: size }).where(eq(table.id, id)).run());
}

const statusOf = (ctx: Ctx, id: string) => ctx.db.select().from(table).where(eq(table.id, id)).get()?.status;

/** The plain name, or a name with the hash if another row uses another version of the file. */
function targetOf(ctx: Ctx, id: string, repo: string, file: HubDownload["file"]): string {
  const plain = join(FOLDER, HUB, repo, file.path);
  const other = otherAt(ctx, plain, id);
  if (!other || other.sha256 === file.sha256) return plain;
  return plain.replace(/\.gguf$/i, `-${(file.sha256 ?? id).slice(0, 12)}.gguf`);
}

/** The file was downloaded for another workspace, or before a crash. */
async function alreadyHere(ctx: Ctx, { workspaceId, file, target }: HubDownload): Promise<Fetched | undefined> {
  const path = join(ctx.config.data_dir, target);
  const stats = await stat(path).catch(() => undefined);
  if (stats?.size !== file.size || file.sha256 === null) return undefined;
  const checked = await checkWhole(ctx, path, { workspaceId, file }).catch(() => undefined); // a damaged file is downloaded again
  return checked && { ...checked, fileMtimeMs: Math.floor(stats.mtimeMs) };
}

function saveProgress(ctx: Ctx, tasks: ReadonlyMap<string, Task>) {
  for (const [id, task] of tasks) {
    if (task.progress === task.saved) continue;
    task.saved = task.progress;
    write(ctx.db, (tx) => tx.update(table).set({ progress: task.progress }).where(eq(table.id, id)).run());
  }
}
