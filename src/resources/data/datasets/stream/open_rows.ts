/** Open row files. All readers and appends of a file share one connection; idle ones are closed. */
import { existsSync } from "node:fs";
import { openRows, type RowsFile } from "../../../../platform/rows/file.ts";
import { createHashing } from "../../../../platform/rows/hash.ts";

const MOST_OPEN = 64;

type OpenFile = {
  file: RowsFile;
  hashing: ReturnType<typeof createHashing>;
  users: number;
  /** False after opening and after a failed append: rows beyond the head may be left and must be cut off. */
  clean: boolean;
  /** The file was deleted: its last user closes it. */
  discarded: boolean;
};
export type RowsHandle = Pick<OpenFile, "file" | "hashing"> & { opened: OpenFile; release: () => void };

export class OpenRows {
  /** By path, in order of use: the file used last comes last. */
  readonly #files = new Map<string, OpenFile>();

  /** The caller releases the handle. Returns undefined if there is no file and `create` is false. */
  hold(path: string, create: boolean): RowsHandle | undefined {
    const opened = this.#files.get(path) ?? (create || existsSync(path) ? this.#open(path) : undefined);
    if (!opened) return undefined;
    this.#files.delete(path);
    this.#files.set(path, opened);
    opened.users++;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      opened.users--;
      if (opened.discarded && opened.users === 0) opened.file.close();
    };
    return { file: opened.file, hashing: opened.hashing, opened, release };
  }

  #open(path: string): OpenFile {
    const file = openRows(path, "append");
    this.#closeIdle();
    return { file, hashing: createHashing(file), users: 0, clean: false, discarded: false };
  }

  #closeIdle() {
    for (const [path, { file, users }] of this.#files) {
      if (this.#files.size < MOST_OPEN) return;
      if (users > 0) continue;
      this.#files.delete(path);
      file.close();
    }
  }

  /** Closes a file that was deleted or replaced on the disk. Returns false while readers still use it. */
  closeReplaced(path: string): boolean {
    const opened = this.#files.get(path);
    if (!opened || opened.file.isInPlace()) return true;
    if (opened.users > 0) return false; // the log of a later connection would have the same name
    this.#files.delete(path);
    opened.file.close();
    return true;
  }

  /** Current users can finish; later ones open the path anew. */
  discard(path: string) {
    const opened = this.#files.get(path);
    if (!opened) return;
    this.#files.delete(path);
    opened.discarded = true;
    if (opened.users === 0) opened.file.close();
  }

  close() {
    for (const { file } of this.#files.values()) file.close();
    this.#files.clear();
  }
}
