import { chownSync, closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Sink } from "../../lib/archive/entries.ts";

type Owner = { uid: number; gid: number } | null;

/**
 * Unpacks into an empty directory with no other writer. Every file is executable, because zip archives do not record
 * it.
 */
export function directorySink(dir: string, owner: Owner): Sink {
  let fd: number | undefined;
  const place = (name: string) => join(dir, ...name.split("/").filter((part) => part !== "" && part !== "."));
  const give = (path: string) => owner && chownSync(path, owner.uid, owner.gid);
  const folder = (path: string) => {
    const first = mkdirSync(path, { recursive: true, mode: 0o755 });
    if (first === undefined) return;
    for (let each = path; each.length >= first.length; each = dirname(each)) give(each);
  };
  return {
    folder: (name) => folder(place(name)),
    open(name) {
      const path = place(name);
      folder(dirname(path));
      fd = openSync(path, "wx", 0o755);
      give(path);
    },
    write(chunk) {
      if (fd === undefined) return;
      for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at);
    },
    close() {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
}
