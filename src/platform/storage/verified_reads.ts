/** Reads parts of a local content. Each block is compared with its sum before any byte of it is given. */
import type { FileHandle } from "node:fs/promises";
import { KIB } from "../../lib/units.ts";
import * as files from "../files.ts";
import { BLOCK_BYTES, blocksIn, firstWrong } from "./block_sums.ts";
import { DamagedError } from "./damage.ts";

const READ_BYTES = 256 * KIB;
const SUMS_AT_ONCE = 4_096; // 32 KiB, for 256 MiB of content

export type Part = { offset: number; bytes: number };
export type Blocks = {
  file: FileHandle;
  path: string;
  /** The size of the whole content. */
  totalBytes: number;
  /** Undefined if there are none. */
  readSums: (first: number, count: number) => Promise<BigUint64Array | undefined>;
  /** Called for a block that does not have its sum. Throws if the content is damaged, and not only the sums. */
  onWrong: (at: number) => Promise<void>;
};

/** Gives the part in pieces. The file stays open. */
export async function* verifiedPieces(blocks: Blocks, { offset, bytes }: Part): AsyncGenerator<Uint8Array> {
  const end = offset + bytes;
  const lastByte = Math.min(blocks.totalBytes, blocksIn(end) * BLOCK_BYTES);
  const sumsFor = sumsWindow(blocks, blocksIn(lastByte));
  let isSound = false;
  for (let at = offset - (offset % BLOCK_BYTES); at < end; ) {
    const read = () => readAll(blocks.file, at, Math.min(READ_BYTES, lastByte - at));
    let piece = await read();
    const sums = isSound ? undefined : await sumsFor(at / BLOCK_BYTES, blocksIn(piece.byteLength));
    const wrong = sums ? firstWrong(sums, piece) : -1;
    if (wrong >= 0) {
      await blocks.onWrong(at + wrong * BLOCK_BYTES);
      isSound = true; // all of it was hashed: do not do so again for the next wrong sum
      piece = await read();
    }
    yield piece.subarray(Math.max(0, offset - at), Math.min(piece.byteLength, end - at));
    at += piece.byteLength;
  }
}

/** Reads the sums of many blocks at once. `limit`: the number of the block after the last one. */
function sumsWindow({ readSums }: Blocks, limit: number) {
  let from = 0;
  let sums: BigUint64Array | undefined;
  let until = 0;
  return async (first: number, count: number) => {
    if (first + count > until) {
      from = first;
      const many = Math.min(SUMS_AT_ONCE, limit - first);
      sums = await readSums(first, many);
      until = first + many;
    }
    return sums?.subarray(first - from, first - from + count);
  };
}

const readAll = (file: FileHandle, from: number, bytes: number): Promise<Uint8Array> =>
  files.readExactly(file, new Uint8Array(bytes), from, () => new Error("the file is shorter than it was"));

/** The part as a stream. It closes the file with the last byte: a reader that knows the length asks no further. */
export function verifiedStream(blocks: Blocks, part: Part): ReadableStream<Uint8Array> {
  const pieces = verifiedPieces(blocks, part);
  let left = part.bytes;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { value } = await pieces.next();
          left -= value?.byteLength ?? 0;
          if (value) controller.enqueue(value);
          if (left > 0) return;
          await blocks.file.close();
          controller.close();
        } catch (error) {
          await blocks.file.close().catch(() => {}); // the read's failure is the one to tell
          controller.error(error instanceof DamagedError ? error : new files.StorageError(blocks.path, "read", error));
        }
      },
      cancel: () => blocks.file.close(),
    },
    { highWaterMark: 0 },
  );
}
