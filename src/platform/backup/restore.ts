/** Writes a backup into a new data directory, and checks a restored one. */
import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { someSealed } from "../db/sealed.ts";
import { sha256File, syncDir, tempPath, writeFileAtomic, writeTemp } from "../files.ts";
import { createSecretBox } from "../secrets.ts";
import { checkDatabase, heads, objectPathOf, refPathOf, rowsFault, storageKeys } from "./invariants.ts";
import { openKeys, type Sealer } from "./key_seal.ts";
import type { BackupFile, Manifest } from "./manifest.ts";
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
  mkdirSync(dir, MODE);
  for (const file of manifest.files) {
    if (skip(file.path)) {
      for await (const _ of contentOf(repository, file)); // each chunk is compared with its hash
      continue;
    }
    const path = join(dir, file.path);
    await mkdir(dirname(path), MODE);
    const written = await writeTemp(path, contentOf(repository, file));
    const bytes = file.patches ? await applyPatches(repository, path, file) : written.bytes;
    if (bytes !== file.bytes)
      throw new UsageError(`${file.path} has ${bytes} bytes in the backup instead of ${file.bytes}`, 1);
  }
  if (!manifest.keys || !sealer) return;
  for (const [name, text] of Object.entries(openKeys(manifest.keys, sealer, manifest.id))) {
    const path = join(dir, name);
    await mkdir(dirname(path), MODE);
    await writeFileAtomic(path, text);
  }
}

async function* contentOf(repository: Repository, { chunks }: BackupFile): AsyncGenerator<Uint8Array> {
  for (const sha256 of chunks) yield await repository.getChunk(sha256);
}

/** Opens the restored database read-only and compares everything that it names with the files. */
async function checkRestored(dir: string, { without }: Manifest): Promise<string[]> {
  const path = join(dir, "verk.db");
  if (!existsSync(path)) return ["It has no database"];
  const db = new Database(path, { readonly: true });
  try {
    const faults = checkDatabase(db);
    for (const [id, head] of heads(db)) {
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
    const { sha256, bytes } = JSON.parse(readFileSync(ref, "utf8")) as { sha256: string; bytes: number };
    const object = join(dir, objectPathOf(sha256));
    const sound = existsSync(object) && statSync(object).size === bytes && (await sha256File(object)) === sha256;
    if (!sound) faults.push(`The content of ${key} is missing or damaged`);
  }
  return faults;
}

/** Another master key would make every secret of the restored server useless. */
function keyFaults(db: Database, file: string): string[] {
  const [, id] = someSealed(db)?.split(".") ?? [];
  const { keyId } = createSecretBox(Buffer.from(readFileSync(file, "utf8").trim(), "hex"));
  return id === undefined || id === keyId ? [] : [`The master key is ${keyId}, and the secrets need ${id}`];
}
