/** The files of blocks, piece by piece: a piece stays in the cache of a core from the file to its place, or back. */
import { closeSync, fstatSync, futimesSync, openSync, readSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import { KIB } from "../../../../lib/units.ts";
import { tempPath } from "../../../../platform/files.ts";
import { type BlockKeys, BODY_AT, opening, SEAL_BYTES, sealing, TAG_BYTES } from "./block.ts";

const PIECE = 256 * KIB;

export type BlockFile = { dir: string; name: string; keys: BlockKeys };

/** Reads the content into `place` and returns its length. Throws if it is longer, or not the block of this name and key. */
export function readBlockFile({ dir, name, keys }: BlockFile, place: Uint8Array): number {
  const fd = openSync(join(dir, name), "r");
  try {
    const length = fstatSync(fd).size - SEAL_BYTES;
    if (length < 0 || length > place.length) throw new RangeError(`The block has ${length} bytes of content`);
    const read = (bytes: Uint8Array, at: number) => {
      if (readSync(fd, bytes, 0, bytes.length, at) !== bytes.length) throw new RangeError("The block is cut off");
      return bytes;
    };
    const head = read(Buffer.alloc(BODY_AT), 0);
    const decipher = opening(keys, name, { head, tag: read(Buffer.alloc(TAG_BYTES), BODY_AT + length) });
    if (!decipher) throw new RangeError("The file is no block");
    const piece = Buffer.alloc(Math.min(PIECE, length));
    for (let done = 0; done < length; done += PIECE) {
      const part = read(piece.subarray(0, Math.min(PIECE, length - done)), BODY_AT + done);
      place.set(decipher.update(part), done);
    }
    decipher.final();
    touch(fd);
    return length;
  } finally {
    closeSync(fd);
  }
}

/** The file is not flushed: a block that a power failure damages does not open. */
export function writeBlockFile({ dir, name, keys }: BlockFile, content: Uint8Array) {
  const temp = tempPath(dir);
  try {
    const fd = openSync(temp, "wx", 0o600);
    try {
      const write = (bytes: Uint8Array) => {
        for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
      };
      const { head, cipher } = sealing(keys, name);
      write(head);
      for (let done = 0; done < content.length; done += PIECE)
        write(cipher.update(content.subarray(done, done + PIECE)));
      write(Buffer.concat([cipher.final(), cipher.getAuthTag()]));
    } finally {
      closeSync(fd);
    }
    renameSync(temp, join(dir, name));
  } catch (error) {
    try {
      unlinkSync(temp);
    } catch {
      // it was never made
    }
    throw error;
  }
}

/** The time of the file says when the block was used. */
export function touch(fd: number) {
  const now = Date.now() / 1000;
  try {
    futimesSync(fd, now, now);
  } catch {
    // it only counts as unused for longer
  }
}
