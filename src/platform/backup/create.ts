/** Makes a backup of a data directory, beside a running server or without one. docs/adr/0047-backups.md has the reasons. */
import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { isoTime } from "../../lib/time.ts";
import { someSealed } from "../db/sealed.ts";
import { failpoint } from "../failpoint.ts";
import { cleanTemp } from "../files.ts";
import { masterKeyFor } from "../master_key.ts";
import { sealerOf } from "../secrets.ts";
import { checkDatabase, heads, objectPathOf, refPathOf, rowsFault, schemaOf, storageKeys } from "./invariants.ts";
import { type KeyFiles, type Sealer, sealKeys } from "./key_seal.ts";
import type { BackupFile, Manifest } from "./manifest.ts";
import type { Repository } from "./repository.ts";
import { type Counter, filesBelow, readChunks, type Staging, withCopy } from "./source.ts";

const ATTEMPTS = 20;
const HOUR_MS = 3_600_000;

export type BackupOptions = Staging & {
  dataDir: string;
  masterKeyFile: string;
  repository: Repository;
  version: string;
  nowMs: number;
  /** Undefined: the keys are left out. */
  sealer: Sealer | undefined;
  models: boolean;
  jobs: boolean;
  /** False if the storage is a bucket. */
  storage: boolean;
  /** Do not read the whole database for damage. */
  unchecked?: boolean;
};
export type Made = { manifest: Manifest; storedBytes: number; attempts: number };

export async function createBackup(options: BackupOptions): Promise<Made> {
  const counter: Counter = { storedBytes: 0 };
  const id = newId("bkp", options.nowMs);
  const take: Take = (from, path) => readChunks(options.repository, from, path, counter);
  const { attempts, ...copied } = await copyState(options, newCopies(), take);
  failpoint("backup.before_manifest");
  const manifest = await manifestOf(options, id, copied);
  await options.repository.putManifest(manifest);
  return { manifest, storedBytes: counter.storedBytes, attempts };
}

export type Copied = { files: BackupFile[]; schema: number; keys: KeyFiles | undefined };

export async function manifestOf(
  options: BackupOptions,
  id: string,
  { files, schema, keys }: Copied,
): Promise<Manifest> {
  const without = (["models", "jobs", "storage"] as const).filter((part) => !options[part]);
  const sealedKeys = options.sealer && keys ? await sealKeys(keys, options.sealer, id) : null;
  const about = { id, created_at: isoTime(options.nowMs), version: options.version, schema };
  return { format: 1, ...about, without: [...without], keys: sealedKeys, files };
}

export function requireDataDir(dataDir: string) {
  if (!existsSync(join(dataDir, "verk.db")))
    throw new UsageError(`There is no data directory at ${dataDir}. Name the directory of your server with --data.`);
}

/** Copies a consistent state of the data directory. Throws if it is damaged. */
export async function copyState(
  options: BackupOptions,
  kept: EarlierCopies,
  take: Take,
): Promise<Copied & { attempts: number }> {
  const { dataDir, tempDir } = options;
  requireDataDir(dataDir);
  mkdirSync(tempDir, { recursive: true, mode: 0o700 });
  await cleanTemp(tempDir, HOUR_MS); // copies that a kill left
  for (let attempts = 1; ; attempts++) {
    const { broken, missing, sealedBy, files, schema } = await attempt(options, kept, take);
    const keys = options.sealer && keyFiles(options, sealedBy);
    if (keys && sealedBy !== undefined && keys["master.key"] === undefined)
      missing.push(`The master key ${options.masterKeyFile} is not the one that sealed the secrets`);
    if (broken.length > 0) throw new UsageError(`The data directory is damaged: ${broken.join(". ")}`, 1);
    if (missing.length === 0) return { files, schema, keys, attempts };
    // deleted before it was read: the next copy of the database does not name it
    if (attempts >= ATTEMPTS) throw new UsageError(`The backup is not complete: ${missing.slice(0, 5).join(". ")}`, 1);
  }
}

type Attempt = {
  files: BackupFile[];
  schema: number;
  /** The id of the master key: a rotation may come between the copy of the database and that of the key. */
  sealedBy: string | undefined;
  broken: string[];
  missing: string[];
};
/** Content of earlier attempts. Storage never changes under its name, and a row file only grows. */
export type EarlierCopies = {
  storage: Map<string, BackupFile>;
  rows: Map<string, { file: BackupFile; lastRow: number }>;
};

export const newCopies = (): EarlierCopies => ({ storage: new Map(), rows: new Map() });

/**
 * Content that is deleted between the copy of the database and its own copy is missing. So nothing slow stands between
 * both, and a further attempt reads only what is new.
 */
async function attempt(options: BackupOptions, kept: EarlierCopies, take: Take): Promise<Attempt> {
  const { dataDir } = options;
  const copied = await withCopy(join(dataDir, "verk.db"), options, async (copy) => {
    const db = new Database(copy, { readonly: true });
    const result: Attempt = {
      files: [],
      schema: schemaOf(db),
      sealedBy: sealerOf(someSealed(db)),
      broken: [],
      missing: [],
    };
    const add = (file: BackupFile | undefined) => file && result.files.push(file);
    try {
      failpoint("backup.after_database");
      if (options.storage) await copyStorage(db, dataDir, take, kept.storage, result);
      await copyRows(db, options, take, kept.rows, result);
      if (result.missing.length > 0) return result;
      if (!options.unchecked) result.broken.push(...checkDatabase(db));
      add(await take(copy, "verk.db"));
      await copyAdaptations(dataDir, take, result);
      const folders = [...(options.models ? ["models"] : []), ...(options.jobs ? ["jobs"] : [])];
      for (const folder of folders)
        for await (const path of filesBelow(dataDir, folder, isMadeAgain)) add(await take(join(dataDir, path), path));
      return result;
    } finally {
      db.close();
    }
  });
  if (copied === undefined) throw new UsageError(`The database of ${dataDir} disappeared`, 1);
  return copied;
}

/** In the folder of `resources/detection/adaptation.ts`: the number of the adaptation of detectors that is in use. */
export const CURRENT_ADAPTATION = "adapted_detectors/current.json";

/** The adaptation in use is stored before its number. So the number is read first, and the file that it names is there. */
async function copyAdaptations(dataDir: string, take: Take, to: Attempt) {
  const current = await take(join(dataDir, CURRENT_ADAPTATION), CURRENT_ADAPTATION);
  if (current) to.files.push(current);
  const isOther = (path: string) => path === CURRENT_ADAPTATION || isMadeAgain(path);
  for await (const path of filesBelow(dataDir, dirname(CURRENT_ADAPTATION), isOther)) {
    const file = await take(join(dataDir, path), path);
    if (file) to.files.push(file);
  }
}

/** Downloads, the built-in model and links to models are made again by the server. */
const isMadeAgain = (path: string) =>
  /^models\/(hub|\.builtin|\.downloads|\.given)$|\/\.verk-tmp-[0-9a-f]+$/.test(path);

export type Take = (from: string, path: string) => Promise<BackupFile | undefined>;

async function copyRows(db: Database, options: BackupOptions, take: Take, kept: EarlierCopies["rows"], to: Attempt) {
  const ids = new Set(
    db
      .query<{ id: string }, []>("SELECT id FROM datasets")
      .all()
      .map(({ id }) => id),
  );
  const stored = heads(db);
  const folder = join(options.dataDir, "datasets");
  const names = existsSync(folder) ? readdirSync(folder) : [];
  for (const name of names) {
    const [id = "", second = ""] = name.split(".");
    if (!/^ds_\w+(\.\d+)?\.db$/.test(name) || !ids.has(id)) continue;
    const head = second === "db" ? (stored.get(id) ?? 0) : 0;
    if (second === "db" && head === 0) continue; // a kill may have left such a file half made; the server makes it again
    if ((kept.get(name)?.lastRow ?? -1) < head)
      await withCopy(join(folder, name), options, async (copy) => {
        const file = await take(copy, `datasets/${name}`);
        const fault = rowsFault(id, copy, head);
        if (fault) to.broken.push(fault);
        else if (file) kept.set(name, { file, lastRow: head });
      });
    const keptFile = kept.get(name);
    if (keptFile) to.files.push(keptFile.file);
  }
  const here = new Set(names);
  for (const [id, head] of stored) {
    const keptFile = kept.get(`${id}.db`);
    if ((keptFile?.lastRow ?? -1) < head) to.missing.push(`The dataset ${id} has no row file`);
    else if (keptFile && !here.has(`${id}.db`)) to.files.push(keptFile.file); // deleted after an earlier attempt had copied it
  }
}

async function copyStorage(db: Database, dataDir: string, take: Take, kept: Map<string, BackupFile>, to: Attempt) {
  const objects = new Set<string>();
  const keep = async (path: string) => {
    const file = kept.get(path) ?? (await take(join(dataDir, path), path));
    if (file) kept.set(path, file);
    return file;
  };
  for (const { key, required } of storageKeys(db)) {
    const path = refPathOf(key);
    const text = existsSync(join(dataDir, path)) ? readFileSync(join(dataDir, path), "utf8") : undefined;
    const { sha256 = "", bytes = -1 } =
      text === undefined ? {} : (JSON.parse(text) as { sha256?: string; bytes?: number });
    const object = text === undefined ? undefined : await keep(objectPathOf(sha256));
    const ref = object && (await keep(path));
    if (!object || !ref) {
      if (required) to.missing.push(`The content of ${key} is missing`);
      continue;
    }
    if (object.bytes !== bytes) to.broken.push(`The content of ${key} has ${object.bytes} bytes instead of ${bytes}`);
    to.files.push(ref);
    if (!objects.has(object.path)) to.files.push(object);
    objects.add(object.path);
  }
}

/** The master key and the private keys of TLS. They are in no other part of the backup. */
function keyFiles({ dataDir, masterKeyFile }: BackupOptions, sealedBy: string | undefined): KeyFiles {
  const keys: Record<string, string> = {};
  const master = masterKeyFor(masterKeyFile, sealedBy);
  if (master) keys["master.key"] = `${Buffer.from(master).toString("hex")}\n`;
  const dir = join(dataDir, "tls");
  for (const name of existsSync(dir) ? readdirSync(dir) : [])
    if (/\.(key|crt)$/.test(name) && statSync(join(dir, name)).isFile())
      keys[`tls/${name}`] = readFileSync(join(dir, name), "utf8");
  return keys;
}
