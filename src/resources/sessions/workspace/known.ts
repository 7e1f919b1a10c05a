/** What a writable volume held when it was last written back: by comparing with it, changes are found. */
import { z } from "zod";
import type { ForeignDir } from "../../../sandbox/files/foreign_dir.ts";
import { readNote, writeNote } from "../../../sandbox/files/notes.ts";

/** Path, stamp (another one where the content may be another), hash. */
const Line = z.tuple([z.string(), z.string(), z.string()]);
/** All of them in one line, as earlier versions wrote it. */
const Former = z.array(Line);

export type Known = Map<string, { stamp: string; sha256: string }>;

export const keepKnown = (dir: ForeignDir, n: number, known: Known) => writeNote(dir, n, linesOf(known));

function* linesOf(known: Known) {
  for (const [path, { stamp, sha256 }] of known) yield JSON.stringify([path, stamp, sha256]);
}

export async function readKnown(dir: ForeignDir, n: number): Promise<Known> {
  const known: Known = new Map();
  for await (const text of readNote(dir, n))
    for (const [path, stamp, sha256] of tuplesOf(text, n)) known.set(path, { stamp, sha256 });
  return known;
}

function tuplesOf(text: string, n: number): z.infer<typeof Former> {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && typeof value[0] !== "string" ? Former.parse(value) : [Line.parse(value)];
  } catch (cause) {
    throw new Error(`volumes/${n}.json of a session is damaged`, { cause });
  }
}
