/** Writes a backup into a new data directory, and checks a restored one. */
import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { mkdir, rename, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { OutsideError, readOutside } from "../../lib/json/outside.ts";
import { GIB } from "../../lib/units.ts";
import { someSealed } from "../db/sealed.ts";
import { sha256File, syncDir, tempPath, UNCOUNTED, writeFileAtomic, writeTemp } from "../files.ts";
import { createSecretBox } from "../secrets.ts";
import { checkDatabase, heads, objectPathOf, refPathOf, rowsFault, storageKeys } from "./invariants.ts";
import { openKeys, type Sealer } from "./key_seal.ts";
import { type BackupFile, type Manifest, STORED_REF } from "./manifest.ts";
import { applyPatches } from "./pages.ts";
import type { Repository } from "./repository.ts";

const MODE = { recursive: true, mode: 0o700 } as const;

export type RestoreOptions = {
  repository: Repository;
  manifest: Manifest;
  /** Must not exist, or be empty. */
  to: string;
  /** Undefined: the keys are not restored. */
  sealer: Sealer | undefined;
  /** For a check: these files need not be written. Their chunks are verified anyway. */
  skip?: (path: string) => boolean;
};

/** The directory gets its name when everything in it was written and checked. */
export async function restoreBackup(options: RestoreOptions): Promise<void> {
  const { to, manifest } = options;
  if (existsSync(to)) throw new UsageError(`${to} exists: a backup is restored into a new directory`);
  mkdirSync(dirname(to), { recursive: true });
  const temp = tempPath(dirname(to));
  try {
    await writeFiles(options, temp);
    const faults = await checkRestored(temp, manifest);
    if (faults.length > 0) throw new UsageError(`The backup ${manifest.id} is not sound: ${faults.join(". ")}`, 1);
    await rename(temp, to);
    await syncDir(dirname(to));
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

/** Restores into a temporary directory below `tempDir` and removes it. Returns what is wrong. */
export async function verifyBackup(options: Omit<RestoreOptions, "to">, tempDir: string): Promise<string[]> {
  const temp = tempPath(tempDir);
  try {
    await writeFiles({ ...options, to: temp }, temp);
    return await checkRestored(temp, options.manifest);
  } catch (error) {
    if (error instanceof UsageError) return [error.message];
    throw error;
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

async function writeFiles({ repository, manifest, sealer, skip = () => false }: RestoreOptions, dir: string) {
  const keys = manifest.keys && sealer ? await openKeys(manifest.keys, sealer, manifest.id) : {}; // before anything is written
  mkdirSync(dir, MODE);
  await mustFit(
    manifest.files.filter(({ path }) => !skip(path)),
    dir,
  );
  for (const file of manifest.files) {
    if (skip(file.path)) {
      for await (const _ of contentOf(repository, file)); // each chunk is compared with its hash
      continue;
    }
    const path = join(dir, file.path);
    await mkdir(dirname(path), MODE);
    const written = await writeTemp(path, contentOf(repository, file), { meter: UNCOUNTED });
    const bytes = file.patches ? await applyPatches(repository, path, file) : written.bytes;
    if (bytes !== file.bytes)
      throw new UsageError(`${file.path} has ${bytes} bytes in the backup instead of ${file.bytes}`, 1);
  }
  for (const [name, text] of Object.entries(keys)) {
    const path = join(dir, name);
    await mkdir(dirname(path), MODE);
    await writeFileAtomic(path, text);
  }
}

/** A small manifest can name one chunk a million times: the sizes that it states must fit, and hold. */
async function mustFit(files: readonly BackupFile[], dir: string) {
  const needed = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const { bavail, bsize } = await statfs(dir);
  if (needed > bavail * bsize)
    throw new UsageError(`The backup needs ${needed} bytes, and the disk of ${dir} has ${bavail * bsize} free`, 1);
}

/** A database that was patched may have been larger when it was first copied. */
const SHRUNK_BYTES = 16 * GIB;

async function* contentOf(repository: Repository, file: BackupFile): AsyncGenerator<Uint8Array> {
  const most = file.bytes + (file.patches ? SHRUNK_BYTES : 0);
  let bytes = 0;
  for (const sha256 of file.chunks) {
    const chunk = await repository.getChunk(sha256);
    bytes += chunk.byteLength;
    if (bytes > most)
      throw new UsageError(`${file.path} has more content in the backup than its ${file.bytes} bytes`, 1);
    yield chunk;
  }
}

/** Opens the restored database read-only and compares everything that it names with the files. */
async function checkRestored(dir: string, { without }: Manifest): Promise<string[]> {
  const path = join(dir, "verk.db");
  if (!existsSync(path)) return ["It has no database"];
  const db = new Database(path, { readonly: true });
  try {
    const faults = checkDatabase(db);
    for (const [id, head] of heads(db)) {
      if (!/^\w{1,100}$/.test(id)) {
        faults.push("A dataset has an id that is not one of Verk");
        continue;
      }
      const rows = join(dir, "datasets", `${id}.db`);
      const fault = existsSync(rows) ? rowsFault(id, rows, head) : `The dataset ${id} has no row file`;
      if (fault) faults.push(fault);
    }
    if (!without.includes("storage")) faults.push(...(await storageFaults(db, dir)));
    const key = join(dir, "master.key");
    if (existsSync(key)) faults.push(...keyFaults(db, key));
    return faults;
  } finally {
    db.close();
  }
}

async function storageFaults(db: Database, dir: string): Promise<string[]> {
  const faults: string[] = [];
  for (const { key, required } of storageKeys(db)) {
    const ref = join(dir, refPathOf(key));
    if (!existsSync(ref)) {
      if (required) faults.push(`The content of ${key} is missing`);
      continue;
    }
    if (!(await isStored(dir, ref))) faults.push(`The content of ${key} is missing or damaged`);
  }
  return faults;
}

async function isStored(dir: string, ref: string): Promise<boolean> {
  try {
    if (statSync(ref).size > STORED_REF.mostBytes) return false;
    const { sha256, bytes } = readOutside(STORED_REF, readFileSync(ref));
    const object = join(dir, objectPathOf(sha256));
    return existsSync(object) && statSync(object).size === bytes && (await sha256File(object)) === sha256;
  } catch (error) {
    if (error instanceof OutsideError) return false;
    throw error;
  }
}

/** Another master key would make every secret of the restored server useless. */
function keyFaults(db: Database, file: string): string[] {
  const [, id] = someSealed(db)?.split(".") ?? [];
  const { keyId } = createSecretBox(Buffer.from(readFileSync(file, "utf8").trim(), "hex"));
  return id === undefined || id === keyId ? [] : [`The master key is ${keyId}, and the secrets need ${id}`];
}
