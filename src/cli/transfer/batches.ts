import { UsageError } from "../../lib/errors.ts";
import type { Chunk } from "./source.ts";

/** Whole lines that are sent together. Line numbers count from 1 and include blank lines. */
export type Batch = { bytes: Chunk; firstLine: number; lines: number };
type Limits = { maxLines: number; maxBytes: number };

const LF = 10;
const BLANK = new Set([LF, 13, 9, 32]);
const MOST_LINE_BYTES = 256 << 20; // no server accepts a longer row

/** Splits at line ends. A line longer than a batch is sent alone; blank batches are skipped. */
export async function* batchesOf(chunks: AsyncIterable<Chunk>, limits: Limits): AsyncGenerator<Batch> {
  let pending: Chunk[] = [];
  let size = 0;
  let lines = 0; // whole lines in `pending`
  let firstLine = 1;
  const flush = (): Batch[] => {
    const batch = { bytes: Buffer.concat(pending), firstLine, lines };
    firstLine += lines;
    [pending, size, lines] = [[], 0, 0];
    return batch.bytes.every((byte) => BLANK.has(byte)) ? [] : [batch];
  };
  let open: Chunk[] = []; // the beginning of a line whose end has not come yet
  let openBytes = 0;
  for await (const chunk of chunks)
    for (let at = 0; at < chunk.byteLength; ) {
      const end = chunk.indexOf(LF, at);
      const piece = chunk.subarray(at, end < 0 ? chunk.byteLength : end + 1);
      at += piece.byteLength;
      open.push(piece);
      openBytes += piece.byteLength;
      if (openBytes > MOST_LINE_BYTES)
        throw new UsageError(`Line ${firstLine + lines} is longer than the limit of 256 MiB for a row`, 1);
      if (end < 0) continue;
      if (lines > 0 && size + openBytes > limits.maxBytes) yield* flush();
      pending.push(...open);
      size += openBytes;
      lines++;
      [open, openBytes] = [[], 0];
      if (lines >= limits.maxLines || size >= limits.maxBytes) yield* flush();
    }
  if (openBytes > 0) {
    if (lines > 0 && size + openBytes > limits.maxBytes) yield* flush();
    pending.push(...open);
    lines++;
  }
  if (pending.length > 0) yield* flush();
}
