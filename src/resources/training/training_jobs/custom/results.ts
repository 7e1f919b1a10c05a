/** Collects the output of a custom job and the changes to its volumes, after its command has ended. */
import type { Ctx } from "../../../../context.ts";
import type { TarEntry } from "../../../../lib/archive/tar_write.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { StorageError } from "../../../../platform/files.ts";
import { type Collection, openCollection, type Scan } from "../../../../sandbox/files/collect.ts";
import type { ForeignDir } from "../../../../sandbox/files/foreign_dir.ts";
import { OUTPUT } from "../../../../sandbox/jail/custom_jail.ts";
import * as mounting from "../../../data/volumes/materialize.ts";
import * as volumes from "../../../data/volumes/service.ts";
import type { JobRow, JobVolume } from "../table.ts";
import type { VolumeCopy } from "./files.ts";

const MOST_FAULTS = 20; // lines in the log
const HIDDEN = "some directories cannot be read or are too deep; their files were not kept";

/** Lines for the log: the first ones in full, then a count. A command may leave 200,000 links. */
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
    return this.#more === 0 ? [...this.#first] : [...this.#first, `and ${this.#more} more like these`];
  }
}

type WriteBack = { work: ForeignDir; copy: VolumeCopy };

/**
 * Sends the changed files back to the volume. Returns a line for the log for each file that fails. If a directory cannot
 * be read, nothing is deleted from the volume.
 */
export async function writeBack(ctx: Ctx, job: JobRow, { work, copy }: WriteBack): Promise<string[]> {
  const { volume, below, hashes } = copy;
  if (below === null) return [];
  const faults = new FaultLines();
  const attempt = async (path: string, task: () => unknown) => {
    try {
      await task();
    } catch (error) {
      const isExpected = error instanceof AppError || error instanceof StorageError;
      if (!isExpected) ctx.log.error("cannot write back to a volume", { job: job.id, error });
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
        await attempt(path, () =>
          uploadChanged(ctx, job, { collection, volume, path, bytes, before: hashes.get(path) }),
        );
        await turn();
      }
      for (const path of scan.hidden ? [] : removedFrom(hashes, scan)) {
        await attempt(path, () => removeFromVolume(ctx, job, volume, { path, sha256: hashes.get(path) }));
        await turn();
      }
    }),
  );
  return faults.lines();
}

const UNKNOWN = "see the server's log";

/** Paths that were copied and do not exist any more. One look-up for each. */
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

async function uploadChanged(ctx: Ctx, job: JobRow, { collection, volume, path, bytes, before }: Changed) {
  if (before !== undefined && (await collection.sha256(path)) === before) return;
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  await mounting.takeIn(ctx, row, { path, sizeBytes: bytes, body: collection.content(path, bytes) });
}

type Removed = { path: string; sha256: string | undefined };

function removeFromVolume(ctx: Ctx, job: JobRow, volume: JobVolume, { path, sha256 }: Removed) {
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  if (volumes.findFile(ctx, row, path)?.sha256 !== sha256) return; // changed meanwhile
  volumes.removeFile(ctx, job.workspaceId, volume.name, path);
}

export type Output = { entries: TarEntry[]; faults: string[]; close: () => void };

/** The files in /workspace/output; none if the command removed it. Throws an AppError if it is not a directory. */
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

/** The files that can be opened. Nothing changes them between this check and the archive. */
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
