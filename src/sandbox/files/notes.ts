/** What the server itself writes down beside the directory of a session: lines of text, as many as it has files. */
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { takingTurns } from "../../lib/turns.ts";
import { errorCode, StorageError, writeStreamAtomic } from "../../platform/files.ts";
import { type ForeignDir, pathOf } from "./foreign_dir.ts";

const PIECE_BYTES = 65_536;

/** No command can reach it: the jail mounts `volumes/<n>`, not the directory above. */
const noteOf = (dir: ForeignDir, n: number): string => join(pathOf(dir.below("volumes")), `${n}.json`);

/** In place of the old one, whole or not at all. */
export const writeNote = (dir: ForeignDir, n: number, lines: Iterable<string>) =>
  writeStreamAtomic(noteOf(dir, n), pieces(lines));

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

/** None where it was never written. */
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
