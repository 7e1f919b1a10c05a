/** A tar archive on standard output. It can only be written: extract it into a directory to list or restore the backup. */

import { tarEnd, tarEntry } from "../../lib/archive/tar_write.ts";
import { UsageError } from "../../lib/errors.ts";
import type { BackupTarget } from "./target.ts";

export type ArchiveTarget = BackupTarget & { end: () => Promise<void> };

export function openArchiveTarget(send: (bytes: Uint8Array) => Promise<void>): ArchiveTarget {
  const sent = new Map<string, number>();
  const refuse = () => {
    throw new UsageError("An archive on standard output can only be written. Extract it with `tar -x` first.");
  };
  return {
    name: "standard output",
    head: async (name) => {
      const bytes = sent.get(name);
      return bytes === undefined ? undefined : { bytes, updatedAt: Date.now() };
    },
    read: async () => refuse(),
    async write(name, content) {
      for (const part of tarEntry(name, content, 0o600)) await send(part);
      sent.set(name, content.byteLength);
    },
    remove: async () => refuse(),
    async *list() {},
    end: () => send(tarEnd()),
  };
}
