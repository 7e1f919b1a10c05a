import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { errorCode, StorageError } from "../files.ts";

/** The name of a file that is a key ends so; directories never do, for `=` is written as %3D. */
export const LEAF = "=";
export const encode = (segment: string) => segment.replaceAll(/[%=]/g, (char) => (char === "%" ? "%25" : "%3D"));
const decode = (name: string) => name.replaceAll(/%25|%3D/g, (code) => (code === "%25" ? "%" : "="));

/** Keys in byte order: a directory sorts as `name/`, which is how its keys go on. */
export async function* keysBelow(dir: string, base: string, prefix: string, after: string): AsyncGenerator<string> {
  const dirents = await readdir(dir, { withFileTypes: true }).catch((error): Dirent[] => {
    if (["ENOENT", "ENOTDIR"].includes(errorCode(error) ?? "")) return []; // pruned while we looked
    throw new StorageError(dir, "read", error);
  });
  const entries = dirents.flatMap((entry): { key: string; name: string | undefined }[] => {
    if (entry.isDirectory()) return [{ key: `${base}${decode(entry.name)}/`, name: entry.name }];
    return entry.name.endsWith(LEAF) ? [{ key: base + decode(entry.name.slice(0, -1)), name: undefined }] : [];
  });
  for (const { key, name } of entries.sort((a, b) => compareBytes(a.key, b.key))) {
    if (name === undefined) {
      if (key.startsWith(prefix) && compareBytes(key, after) > 0) yield key;
    } else if (prefix.startsWith(key) || key.startsWith(prefix)) {
      // Everything below sorts at or after `key`, and before it only when `after` leads into or past it.
      if (after.startsWith(key) || compareBytes(key, after) > 0) yield* keysBelow(join(dir, name), key, prefix, after);
    }
  }
}

const compareBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
