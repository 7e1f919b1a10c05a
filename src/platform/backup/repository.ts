/**
 * The backups of one place. Chunks are named by their content, so a chunk is stored once:
 * backups/<id>.json  a manifest, which lists files and their chunks
 * dropped/<id>.json  a manifest that was pruned. Its chunks stay for a day, because a backup that runs may name them
 * log/<id>.json      a state between two backups (log.ts)
 * chunks/ab/cdef…    content
 */
import { UsageError } from "../../lib/errors.ts";
import { timeOf } from "../../lib/ids.ts";
import { type Outside, OutsideError, readOutside } from "../../lib/json/outside.ts";
import { DAY_MS } from "../../lib/units.ts";
import { sha256Bytes } from "../files.ts";
import { LOG_ENTRY, type LogEntry, MANIFEST, type Manifest, MOST_CHUNK_BYTES, WRAPPED } from "./manifest.ts";
import type { BackupTarget } from "./target.ts";

export type Repository = {
  /** Returns the hash. `stored`: false if the chunk was there. */
  putChunk: (bytes: Uint8Array) => Promise<{ sha256: string; stored: boolean }>;
  /** Throws if the chunk is missing or damaged. */
  getChunk: (sha256: string) => Promise<Uint8Array>;
  putManifest: (manifest: Manifest) => Promise<void>;
  /** Throws if there is no such backup, or if its manifest is damaged. */
  getManifest: (id: string) => Promise<Manifest>;
  /** Ids, oldest first. */
  list: () => Promise<string[]>;
  putLogEntry: (entry: LogEntry) => Promise<void>;
  /** Undefined if there is no such entry. Throws if it is damaged. */
  getLogEntry: (id: string) => Promise<LogEntry | undefined>;
  /** Ids of the log, oldest first. */
  listLog: () => Promise<string[]>;
  /** Keeps the newest `keep` backups, and the log of the last week since the oldest of them. Returns the number of pruned backups and removed chunks. */
  prune: (keep: number, nowMs: number) => Promise<{ backups: number; chunks: number }>;
};

type Folder = "backups" | "dropped" | "log";
const ID = /^bkp_[0-9a-z]{26}$/;
/** A chunk that no manifest names is reused only if it is young: an older one may be pruned at any moment. */
const REUSE_MS = DAY_MS / 2;
const LOG_MS = 7 * DAY_MS;

const chunkName = (sha256: string) => `chunks/${sha256.slice(0, 2)}/${sha256.slice(2)}`;
const encode = (text: string) => new TextEncoder().encode(text);

export function openRepository(place: BackupTarget): Repository {
  let named: Promise<Set<string>> | undefined; // chunks of the manifests; read once, by the first chunk that is there

  async function ids(folder: Folder): Promise<string[]> {
    const names: string[] = [];
    for await (const { name } of place.list(folder))
      if (name.endsWith(".json") && ID.test(name.slice(0, -".json".length))) names.push(name.slice(0, -".json".length));
    return names.sort();
  }

  async function read<M>(name: string, form: Outside<M>): Promise<M | undefined> {
    const bytes = await place.read(name, form.mostBytes);
    if (bytes === undefined) return undefined;
    const refuse = (why: string, cause?: unknown) =>
      new UsageError(`The manifest ${name} in ${place.name} is damaged: use another backup (${why})`, 1, { cause });
    try {
      const { sha256, manifest } = readOutside(WRAPPED, bytes);
      if (sha256Bytes(manifest) !== sha256) throw refuse("its hash is another");
      return readOutside(form, manifest);
    } catch (error) {
      throw error instanceof OutsideError ? refuse(error.message, error) : error;
    }
  }

  async function write(name: string, manifest: Manifest) {
    const text = JSON.stringify(manifest);
    const body = JSON.stringify({ sha256: sha256Bytes(text), manifest: text });
    await place.write(name, encode(`${body}\n`));
  }

  async function chunksOf(folders: readonly Folder[]): Promise<Set<string>> {
    const chunks = new Set<string>();
    for (const folder of folders)
      for (const id of await ids(folder)) {
        const shape = folder === "log" ? LOG_ENTRY : MANIFEST;
        const manifest = await read<Manifest>(`${folder}/${id}.json`, shape);
        for (const file of manifest?.files ?? [])
          for (const chunk of [...file.chunks, ...(file.patches ?? [])]) chunks.add(chunk);
      }
    return chunks;
  }

  /** Removes entries from before a time. The newest stays: the next one needs its patches. Bases of these stay too. */
  async function pruneLog(beforeMs: number) {
    const all = await ids("log");
    const ends = [all.find((id) => timeOf(id) >= beforeMs), all.at(-1)].filter((id) => id !== undefined);
    const bases = await Promise.all(ends.map(async (id) => (await read(`log/${id}.json`, LOG_ENTRY))?.base ?? id));
    const kept = new Set([...bases, all.at(-1)]);
    for (const id of all) if (timeOf(id) < beforeMs && !kept.has(id)) await place.remove(`log/${id}.json`);
  }

  async function isReusable(sha256: string, bytes: number): Promise<boolean> {
    const chunk = await place.head(chunkName(sha256));
    if (chunk?.bytes !== bytes) return false; // a file system that lost its content leaves a size of 0
    if (Date.now() - chunk.updatedAt < REUSE_MS) return true;
    named ??= chunksOf(["backups", "log"]).catch(() => new Set()); // a damaged manifest: every old chunk is stored again
    return (await named).has(sha256);
  }

  return {
    async putChunk(bytes) {
      const sha256 = sha256Bytes(bytes);
      if (await isReusable(sha256, bytes.byteLength)) return { sha256, stored: false };
      await place.write(chunkName(sha256), bytes);
      return { sha256, stored: true };
    },
    async getChunk(sha256) {
      const bytes = await place.read(chunkName(sha256), MOST_CHUNK_BYTES);
      if (bytes === undefined) throw new UsageError(`The chunk ${sha256} is missing from ${place.name}`, 1);
      if (sha256Bytes(bytes) !== sha256)
        throw new UsageError(`The chunk ${chunkName(sha256)} in ${place.name} is damaged`, 1);
      return bytes;
    },
    putManifest: (manifest) => write(`backups/${manifest.id}.json`, manifest),
    putLogEntry: (entry) => write(`log/${entry.id}.json`, entry),
    getLogEntry: (id) => read(`log/${id}.json`, LOG_ENTRY),
    listLog: () => ids("log"),
    async getManifest(id) {
      const manifest = ID.test(id) ? await read(`backups/${id}.json`, MANIFEST) : undefined;
      if (manifest) return manifest;
      throw new UsageError(
        `There is no backup ${JSON.stringify(id)} in ${place.name}. \`verk backup list\` shows all.`,
      );
    },
    list: () => ids("backups"),
    async prune(keep, nowMs) {
      const old = (await ids("backups")).slice(0, -keep);
      for (const id of old) {
        const manifest = await place.read(`backups/${id}.json`, MANIFEST.mostBytes);
        if (manifest) await place.write(`dropped/${id}.json`, manifest);
        await place.remove(`backups/${id}.json`);
      }
      const [oldest] = await ids("backups");
      await pruneLog(Math.max(oldest === undefined ? 0 : timeOf(oldest), nowMs - LOG_MS));
      for await (const { name, updatedAt } of place.list("dropped"))
        if (nowMs - updatedAt > DAY_MS) await place.remove(`dropped/${name}`);
      const needed = await chunksOf(["backups", "dropped", "log"]);
      let chunks = 0;
      for await (const { name, updatedAt } of place.list("chunks")) {
        if (needed.has(name.replace("/", "")) || nowMs - updatedAt < DAY_MS) continue;
        await place.remove(`chunks/${name}`);
        chunks++;
      }
      return { backups: old.length, chunks };
    },
  };
}
