import { takingTurns } from "../../lib/turns.ts";
import type { RowsFile } from "./file.ts";
import { liveBytes } from "./live.ts";

export type Digest = { rows: number; bytes: number; sha256: string };

const nothing = () => ({ head: 0, rows: 0, bytes: 0, hasher: new Bun.CryptoHasher("sha256") });

/**
 * Hashes of a log's live rows as it grows. What was hashed before is remembered while no change touches it, so that
 * the next snapshot of a stream costs what was appended since.
 */
export function createHashing(file: RowsFile) {
  let cached = nothing();

  return {
    /** A change was recorded that speaks of `target`. */
    touch(target: number) {
      if (target <= cached.head) cached = nothing();
    },
    /** Over the live rows as of `head`, one a line: the same as of an export. */
    async digest(head: number, signal?: AbortSignal): Promise<Digest> {
      const from = head >= cached.head ? cached : nothing();
      const hasher = from.hasher.copy();
      let { rows, bytes } = from;
      const turn = takingTurns();
      for (const piece of liveBytes(file, head, from.head + 1)) {
        hasher.update(piece.bytes);
        rows += piece.rows;
        bytes += piece.bytes.byteLength;
        const others = turn();
        if (!others) continue;
        await others;
        signal?.throwIfAborted();
      }
      // A remembered hash must hold for every later head: no entry beyond it may change a row up to it.
      if (head >= cached.head && !file.isChangedBeyond(head)) cached = { head, rows, bytes, hasher: hasher.copy() };
      return { rows, bytes, sha256: hasher.digest("hex") };
    },
  };
}
