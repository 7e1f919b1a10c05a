/** What a custom job leaves behind: its output, and the changes of its volumes. Nothing of the job runs any more. */
import type { Ctx } from "../../../context.ts";
import type { TarEntry } from "../../../lib/archive/tar_write.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { StorageError } from "../../../platform/files.ts";
import { type Collection, openCollection, type Scan } from "../../../sandbox/files/collect.ts";
import type { ForeignDir } from "../../../sandbox/files/foreign_dir.ts";
import * as mounting from "../../volumes/materialize.ts";
import * as volumes from "../../volumes/service.ts";
import type { JobRow, JobVolume } from "../table.ts";
import { type Copied, OUTPUT } from "./files.ts";

const MOST_FAULTS = 20; // lines of the log
const HIDDEN = "some directories cannot be read, or lie too deep: their files are not taken";

/** Lines for the log: the first in full, and how many more there are. A command may leave 200,000 links. */
export class FaultLines {
  readonly #first: string[] = [];
  #more = 0;
  add(line: string) {
    if (this.#first.length < MOST_FAULTS) this.#first.push(line);
    else this.#more++;
  }
  addSkipped(name: string, { skipped, hidden }: Scan) {
    if (hidden) this.add(`${name}: ${HIDDEN}`);
    for (const [path, why] of skipped) this.add(`${name}/${path} was not kept: ${why}`);
  }
  lines(): string[] {
    return this.#more === 0 ? [...this.#first] : [...this.#first, `and ${this.#more} more of the kind`];
  }
}

type Writing = { work: ForeignDir; copied: Copied };

/**
 * Sends what the command changed back to the volume. A file that fails becomes a line of the log, and the rest goes on.
 * Nothing is deleted from the volume while some of its directories cannot be read.
 */
export async function writeBack(ctx: Ctx, job: JobRow, { work, copied }: Writing): Promise<string[]> {
  const { volume, below, hashes } = copied;
  if (below === null) return [];
  const faults = new FaultLines();
  const attempt = async (path: string, task: () => unknown) => {
    try {
      await task();
    } catch (error) {
      const known = error instanceof AppError || error instanceof StorageError;
      if (!known) ctx.log.error("a volume was not written back", { job: job.id, error });
      const why = error instanceof StorageError ? error.advice : error instanceof AppError ? error.message : UNKNOWN;
      faults.add(`${[volume.name, path].filter(Boolean).join("/")} was not written back: ${why}`);
    }
  };
  await attempt("", () =>
    collecting(work, below, async (collection) => {
      const scan = await collection.scan();
      const turn = takingTurns();
      faults.addSkipped(volume.name, scan);
      for (const [path, { bytes }] of scan.files) {
        await attempt(path, () => takeBack(ctx, job, { collection, volume, path, bytes, before: hashes.get(path) }));
        await turn();
      }
      for (const path of scan.hidden ? [] : removedFrom(hashes, scan)) {
        await attempt(path, () => remove(ctx, job, volume, { path, sha256: hashes.get(path) }));
        await turn();
      }
    }),
  );
  return faults.lines();
}

const UNKNOWN = "the log of the server has the details";

/** Paths that were copied and are no longer there, as files or as anything else. One look-up for each. */
export function* removedFrom(
  copied: ReadonlyMap<string, string>,
  { files, skipped }: { files: { has: (path: string) => boolean }; skipped: { has: (path: string) => boolean } },
): Generator<string> {
  for (const path of copied.keys()) if (!files.has(path) && !skipped.has(path)) yield path;
}

async function collecting<T>(work: ForeignDir, below: string, use: (collection: Collection) => Promise<T>): Promise<T> {
  const collection = openCollection(work, below);
  try {
    return await use(collection);
  } finally {
    collection.close();
  }
}

type Changed = { collection: Collection; volume: JobVolume; path: string; bytes: number; before: string | undefined };

async function takeBack(ctx: Ctx, job: JobRow, { collection, volume, path, bytes, before }: Changed) {
  if (before !== undefined && (await collection.sha256(path)) === before) return;
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  await mounting.takeIn(ctx, row, { path, sizeBytes: bytes, body: collection.content(path, bytes) });
}

type Removed = { path: string; sha256: string | undefined };

function remove(ctx: Ctx, job: JobRow, volume: JobVolume, { path, sha256 }: Removed) {
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  if (volumes.findFile(ctx, row, path)?.sha256 !== sha256) return; // somebody else changed it
  volumes.removeFile(ctx, job.workspaceId, volume.name, path);
}

export type Output = { entries: TarEntry[]; faults: string[]; close: () => void };

/** The files in /workspace/output. None where the command removed it. Throws an AppError where it is no directory. */
export async function outputOf(work: ForeignDir): Promise<Output> {
  let collection: Collection;
  try {
    collection = openCollection(work, OUTPUT);
  } catch (error) {
    if (error instanceof AppError && error.code === "resource_not_found")
      return { entries: [], faults: [], close: () => {} };
    throw error;
  }
  try {
    const scan = await collection.scan();
    const faults = new FaultLines();
    faults.addSkipped(OUTPUT, scan);
    const entries = await readable(collection, scan, faults);
    return { entries, faults: faults.lines(), close: collection.close };
  } catch (error) {
    collection.close();
    throw error;
  }
}

/** Those that can be opened now: nothing changes them between this and the archive. */
async function readable(collection: Collection, { files }: Scan, faults: FaultLines): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  const turn = takingTurns();
  for (const [name, { bytes: size }] of files) {
    const why = collection.faultOf(name);
    if (why === undefined) entries.push({ name, size, content: () => collection.content(name, size) });
    else faults.add(`${OUTPUT}/${name} was not kept: ${why}`);
    await turn();
  }
  return entries;
}
