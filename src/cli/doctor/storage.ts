import { Database } from "bun:sqlite";
import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { GIB } from "../../lib/units.ts";
import { isHeld } from "../../platform/db/data_lock.ts";
import { MIGRATIONS } from "../../platform/db/migrations/index.ts";
import { schemaFault } from "../../platform/db/schema.ts";
import { someSealed } from "../../platform/db/sealed.ts";
import { errorCode, StorageError, tempPath, UNCOUNTED, writeTemp } from "../../platform/files.ts";
import { isPrivate } from "../../platform/master_key.ts";
import { createSecretBox, requireMasterKey, SecretError } from "../../platform/secrets.ts";
import { openStorage } from "../../platform/storage/open.ts";
import { type Check, fail, ok, type Scene, warn } from "./check.ts";

const LOW_BYTES = 5 * GIB;
const EMPTY_BYTES = GIB / 4;

export const storageChecks: readonly Check[] = [
  { name: "data directory", run: dataDirectory },
  { name: "disk space", run: diskSpace },
  { name: "file system", run: fileSystem },
  { name: "lock", run: lock },
  { name: "database", run: database },
  { name: "master key", run: masterKey },
  { name: "file storage", run: fileStorage },
];

/** The path itself, or its nearest parent that exists. */
function existing(path: string): string {
  let at = path;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  return at;
}

async function dataDirectory({ config }: Scene) {
  const dir = config.data_dir;
  const at = existing(dir);
  const fix = "make this user the owner of the directory (chown), or choose another directory with --data";
  if (!statSync(at).isDirectory()) return fail(`${at} is not a directory`, "choose a directory with --data");
  try {
    accessSync(at, constants.W_OK | constants.X_OK);
  } catch {
    return fail(`${at} is not writable`, fix);
  }
  if (at !== dir) return ok(`${dir} (the first start creates it)`);
  const temp = tempPath(dir); // permission bits do not show a read-only mount or a full disk
  try {
    await writeTemp(temp, [new Uint8Array(4096)], { meter: UNCOUNTED });
  } finally {
    await unlink(temp).catch(() => {});
  }
  return ok(`${dir}, writable`);
}

function diskSpace({ config }: Scene) {
  const { bavail, bsize, files, ffree } = statfsSync(existing(config.data_dir));
  const free = bavail * bsize;
  const shown = `${formatBytes(free)} free`;
  const more = "free some space, or point data_dir at a larger disk";
  if (free < EMPTY_BYTES) return fail(shown, more);
  if (files > 0 && ffree < 1000)
    return fail(`${shown}, but only ${ffree} inodes`, "remove small files, or choose another disk");
  if (free < LOW_BYTES) return warn(`${shown}: models and checkpoints need more`, more);
  return ok(shown);
}

const NETWORK: Readonly<Record<number, string>> = {
  26985: "NFS",
  4283649346: "CIFS",
  4266872130: "SMB2",
  20859: "SMB",
  1702057286: "FUSE",
  16914839: "9P",
  12805120: "Ceph",
  198183888: "Lustre",
  1196443219: "GPFS",
};
const TMPFS = 0x01021994;

function fileSystem({ config }: Scene) {
  const type = statfsSync(existing(config.data_dir)).type >>> 0;
  const network = NETWORK[type];
  if (network)
    return warn(
      `${network}: SQLite's locks and flushes cannot be trusted over a network`,
      "put data_dir on a local disk; large files may be elsewhere",
    );
  if (type === TMPFS) return warn("tmpfs: all data is lost after a reboot", "put data_dir on a disk");
  return ok("local");
}

function lock({ config }: Scene) {
  const { held, holder } = isHeld(config.data_dir);
  if (!held) return ok("no server is using the data directory");
  return ok(
    holder
      ? `held by process ${holder.pid}, listening on ${holder.listen ?? "nothing yet"}, version ${holder.version}`
      : "held by another process",
  );
}

function database({ config }: Scene) {
  const path = join(config.data_dir, "verk.db");
  if (!existsSync(path)) return ok("none yet (the first start creates it)");
  const db = new Database(path, { readonly: true });
  try {
    db.run(`PRAGMA busy_timeout = ${config.db.busy_timeout_ms}`);
    const { user_version: version } = db.query("PRAGMA user_version").get() as { user_version: number };
    const latest = MIGRATIONS.at(-1)?.version ?? 0;
    if (version > latest)
      return fail(
        `schema ${version} is newer than this verk, which supports up to ${latest}`,
        "install the version of verk that wrote it, or restore a backup from the backups folder",
      );
    const [first] = db.query("PRAGMA quick_check(1)").all() as { quick_check: string }[];
    if (first?.quick_check !== "ok") return damaged(first?.quick_check ?? "the check returned nothing");
    if (version < latest) return ok(`schema ${version}, sound; the next start migrates it to ${latest}`);
    const fault = schemaFault(db);
    if (!fault) return ok(`schema ${version}, sound`);
    if (!fault.isFatal) return warn(fault.detail, fault.fix);
    return fail(fault.detail, "restart the server, which repairs the schema or says why it cannot");
  } catch (error) {
    if (!/^SQLITE_(NOTADB|CORRUPT)/.test(errorCode(error) ?? "")) throw error;
    return damaged((error as Error).message);
  } finally {
    db.close();
  }
}

const damaged = (details: string) =>
  fail(
    `damaged: ${details}`,
    "stop the server, copy verk.db*, then restore a backup (`verk backup restore`), or a copy in the folder backups",
  );

/** Opens a sealed value as a server does, because a key of another installation looks like the right one. */
function masterKey({ config }: Scene) {
  const file = config.secrets.master_key_file;
  const sample = sealedIn(join(config.data_dir, "verk.db"));
  if (!existsSync(file) && sample === undefined) return ok(`none yet (the first start creates it): ${file}`);
  if (existsSync(file)) {
    const { mode, uid } = statSync(file);
    if (!isPrivate(mode, uid)) return fail(`${file} has mode 0${(mode & 0o777).toString(8)}`, `chmod 600 ${file}`);
  }
  try {
    const key = requireMasterKey(file, sample);
    if (key && sample !== undefined) createSecretBox(key).rewrap(sample, key);
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof SecretError)) throw error;
    return fail(error.message, "restore the key file from your backup, mode 0600");
  }
  const opens = sample === undefined ? "" : ", opens the secrets of the database";
  return ok(`${file}${opens}. Back it up separately from the data: without the key, secrets cannot be decrypted`);
}

/** Tries every operation, because permissions cannot be read from the storage. */
async function fileStorage({ config }: Scene) {
  const { kind, s3_bucket: bucket } = config.storage;
  if (kind === "local") return ok("in the data directory");
  const key = `doctor/${crypto.randomUUID()}`;
  try {
    const storage = openStorage(config);
    await storage.put(key, new Uint8Array(1));
    await (await storage.get(key))?.stream.cancel();
    await storage.list("doctor/", { limit: 1 });
    await storage.delete(key);
    return ok(`bucket ${bucket}, writable`);
  } catch (error) {
    if (error instanceof UsageError) return fail(error.message, "fix the [storage] section of the configuration");
    if (error instanceof StorageError) return fail(error.message, error.advice);
    throw error;
  }
}

function sealedIn(path: string): string | undefined {
  if (!existsSync(path)) return undefined;
  const db = new Database(path, { readonly: true });
  try {
    return someSealed(db);
  } catch {
    return undefined; // a damaged database: its own check reports that
  } finally {
    db.close();
  }
}
