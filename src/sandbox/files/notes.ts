/** Notes of the server beside the directory of a session: one line of text for each file. */
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { takingTurns } from "../../lib/turns.ts";
import { errorCode, StorageError, UNCOUNTED, writeStreamAtomic } from "../../platform/files.ts";
import { type ForeignDir, pathOf } from "./foreign_dir.ts";

const PIECE_BYTES = 65_536;

/** Commands cannot reach this file: the jail mounts `volumes/<n>`, not the directory above. */
const noteOf = (dir: ForeignDir, n: number): string => join(pathOf(dir.below("volumes")), `${n}.json`);

/** Replaces the note atomically. */
export const writeNote = (dir: ForeignDir, n: number, lines: Iterable<string>) =>
  writeStreamAtomic(noteOf(dir, n), pieces(lines), { meter: UNCOUNTED });

async function* pieces(lines: Iterable<string>): AsyncGenerator<Uint8Array> {
  const turn = takingTurns();
  let text = "";
  for (const line of lines) {
    text += `${line}\n`;
    if (text.length < PIECE_BYTES) continue;
    yield Buffer.from(text);
    text = "";
    await turn();
  }
  yield Buffer.from(text);
}

/** Yields nothing if there is no note. */
export async function* readNote(dir: ForeignDir, n: number): AsyncGenerator<string> {
  const path = noteOf(dir, n);
  const turn = takingTurns();
  try {
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
      yield line;
      await turn();
    }
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw new StorageError(path, "read", error);
  }
}
