/** Opens the place of backups, and the secrets that seal their keys, by the words of a command or of a setting. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import type { Config } from "../config/config.ts";
import type { Sealer } from "./key_seal.ts";
import { type BackupTarget, openDirectory } from "./target.ts";

/** The target of a tar archive on standard output. */
export const ARCHIVE = "-";

const isBucket = (target: string) => target.startsWith("s3://");

export async function openTarget(
  target: string,
  config: Config,
  options: { create?: boolean } = {},
): Promise<BackupTarget> {
  if (!isBucket(target)) return openDirectory(resolve(target), options);
  const { openBucketTarget } = await import("./bucket_target.ts");
  return openBucketTarget(target, config);
}

/** A folder for copies of databases while they are read: beside the backups if that is a directory. */
export async function withTemp<T>(target: string, body: (dir: string) => Promise<T>): Promise<T> {
  if (!isBucket(target) && target !== ARCHIVE) return body(join(resolve(target), "tmp")); // the next backup removes leftovers
  const dir = mkdtempSync(join(tmpdir(), "verk-backup-"));
  try {
    return await body(dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Keys and passphrases come from files: other users can read process arguments. */
export function sealerOf(passphraseFile: string | undefined, keyFile: string | undefined): Sealer | undefined {
  if (passphraseFile && keyFile) throw new UsageError("Use either a passphrase or a key, not both");
  if (passphraseFile) return { passphrase: readText(passphraseFile).replace(/\r?\n$/, "") };
  return keyFile ? { recipient: readText(keyFile) } : undefined;
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new UsageError(`Cannot read ${path} (${(cause as Error).message})`, 2, { cause });
  }
}
