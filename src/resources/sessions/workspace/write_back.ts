/**
 * Writable volumes: what a session changed below their place goes back to them, by comparing with what was there at the
 * last time. The newest writer wins; a file that somebody else changed is not deleted. Nothing is lost in the session.
 */
import { closeSync } from "node:fs";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { StorageError } from "../../../platform/files.ts";
import { chunksOf } from "../../../sandbox/files/chunks.ts";
import { type Scan, scanFiles } from "../../../sandbox/files/collect.ts";
import { type Beneath, openWorkspace } from "../../../sandbox/files/sandbox_dir.ts";
import * as volumes from "../../volumes/service.ts";
import type { VolumeRow } from "../../volumes/table.ts";
import { liveOf } from "../live.ts";
import type { VolumeErrors } from "../schema.ts";
import type { Mounted, SessionRow } from "../table.ts";
import { keepKnown, readKnown } from "./known.ts";
import { dirOf } from "./paths.ts";

type Place = { ctx: Ctx; row: SessionRow; beneath: Beneath; mounted: Mounted; errors: VolumeErrors };

const MOST_ERRORS = 20;
const HIDDEN =
  "some of its directories may not be read or lie too deep: what is in them is not written back, and until they can be read nothing is deleted";

/** After the volume was copied: this is what it holds. */
export async function remember(ctx: Ctx, row: SessionRow, i: number, hashes: ReadonlyMap<string, string>) {
  const beneath = openWorkspace(dirOf(ctx, row.id));
  try {
    const { files } = await scan(beneath, (row.volumes[i] as Mounted).mountPath);
    await keepKnown(
      dirOf(ctx, row.id),
      i,
      new Map([...files].map(([path, { stamp }]) => [path, { stamp, sha256: hashes.get(path) ?? "" }])),
    );
  } finally {
    beneath.close();
  }
}

/** What could not be written back. One at a time for each session. */
export function writeBack(ctx: Ctx, row: SessionRow): Promise<VolumeErrors> {
  if (row.volumes.every(({ readOnly }) => readOnly)) return Promise.resolve([]);
  const live = liveOf(ctx, row);
  const mine = live.syncing.then(() => syncAll(ctx, row));
  live.syncing = mine.catch(() => {});
  return mine;
}

async function syncAll(ctx: Ctx, row: SessionRow): Promise<VolumeErrors> {
  const errors: VolumeErrors = [];
  const beneath = openWorkspace(dirOf(ctx, row.id));
  try {
    for (const [i, mounted] of row.volumes.entries())
      if (!mounted.readOnly)
        await attempt({ ctx, row, beneath, mounted, errors }, "", (volume, place) => sync(place, volume, i));
  } finally {
    beneath.close();
  }
  return errors.slice(0, MOST_ERRORS);
}

/** What fails is told, and the rest goes on. */
async function attempt(place: Place, path: string, work: (volume: VolumeRow, place: Place) => Promise<void>) {
  const { ctx, row, mounted, errors } = place;
  try {
    const volume = volumes.findAny(ctx, mounted.volumeId);
    if (!volume) throw new AppError("resource_not_found", `Volume ${mounted.name} was deleted`);
    await work(volume, place);
  } catch (error) {
    const words = error instanceof StorageError ? error.advice : error instanceof AppError ? error.message : undefined;
    if (!(error instanceof AppError)) ctx.log.error("a volume was not written back", { session: row.id, error });
    errors.push({ volume: mounted.name, path, message: words ?? "the log of the server has the details" });
  }
}

async function sync(place: Place, volume: VolumeRow, i: number) {
  const { ctx, row, beneath, mounted, errors } = place;
  const dir = dirOf(ctx, row.id);
  const known = await readKnown(dir, i);
  const { files, skipped, hidden } = await scan(beneath, mounted.mountPath);
  for (const [path, message] of skipped)
    errors.push({ volume: mounted.name, path, message: `${message}: a volume cannot keep it` });
  if (hidden) errors.push({ volume: mounted.name, path: "", message: HIDDEN });
  const turn = takingTurns();
  let changed = false;
  for (const [path, { stamp }] of files) {
    const before = known.get(path);
    if (before?.stamp === stamp) continue;
    changed = true;
    await turn();
    await attempt(place, path, async () => {
      known.set(path, { stamp, sha256: await send(place, volume, path, before?.sha256) });
    });
  }
  for (const [path, { sha256 }] of hidden ? [] : [...known]) {
    if (files.has(path) || skipped.has(path)) continue;
    changed = true;
    await turn();
    await attempt(place, path, async () => {
      const there = volumes.findFile(ctx, volume, path);
      if (there?.sha256 === sha256) volumes.removeFile(ctx, volume.workspaceId, volume.id, path);
      known.delete(path);
    });
  }
  if (changed) await keepKnown(dir, i, known);
}

/** Gives the hash of what the volume holds now. Only another content is sent. */
async function send({ ctx, beneath, mounted }: Place, volume: VolumeRow, path: string, before: string | undefined) {
  const { fd, stat } = beneath.openFile(`${mounted.mountPath}/${path}`);
  try {
    const hasher = new Bun.CryptoHasher("sha256");
    for await (const chunk of chunksOf(fd, { offset: 0, length: stat.bytes })) hasher.update(chunk);
    const sha256 = hasher.digest("hex");
    if (sha256 === before) return sha256;
    const body = chunksOf(fd, { offset: 0, length: stat.bytes });
    const { row } = await volumes.mounting.takeIn(ctx, volume, { path, sizeBytes: stat.bytes, body });
    return row.sha256;
  } finally {
    closeSync(fd);
  }
}

async function scan(beneath: Beneath, mountPath: string): Promise<Scan> {
  const top = openTop(beneath, mountPath);
  try {
    return await scanFiles(top);
  } finally {
    closeSync(top);
  }
}

/** One that was moved away is no volume without files: nothing is deleted for it. */
function openTop(beneath: Beneath, mountPath: string): number {
  try {
    return beneath.openDirectory(mountPath);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError("invalid_request", `${mountPath} is no directory any more: make it again`, { cause: error });
  }
}
