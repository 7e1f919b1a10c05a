/** The record of a writable volume: its files at the last write-back. Changes are found by comparing with it. */
import { z } from "zod";
import type { ForeignDir } from "../../../../sandbox/files/foreign_dir.ts";
import { readNote, writeNote } from "../../../../sandbox/files/notes.ts";

/** Path, stamp, hash. The stamp differs if the content may have changed. */
const Line = z.tuple([z.string(), z.string(), z.string()]);
/** Earlier versions wrote all files into one line. */
const Former = z.array(Line);

/** By path. */
export type VolumeRecord = Map<string, { stamp: string; sha256: string }>;

export const writeVolumeRecord = (dir: ForeignDir, n: number, record: VolumeRecord) =>
  writeNote(dir, n, linesOf(record));

function* linesOf(record: VolumeRecord) {
  for (const [path, { stamp, sha256 }] of record) yield JSON.stringify([path, stamp, sha256]);
}

export async function readVolumeRecord(dir: ForeignDir, n: number): Promise<VolumeRecord> {
  const record: VolumeRecord = new Map();
  for await (const text of readNote(dir, n))
    for (const [path, stamp, sha256] of tuplesOf(text, n)) record.set(path, { stamp, sha256 });
  return record;
}

function tuplesOf(text: string, n: number): z.infer<typeof Former> {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && typeof value[0] !== "string" ? Former.parse(value) : [Line.parse(value)];
  } catch (cause) {
    throw new Error(`volumes/${n}.json of a session is damaged`, { cause });
  }
}
