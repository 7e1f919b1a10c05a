import { badRows, type SourceFile, tooLong } from "./file.ts";

/** `endByte` is the start of the following line. `firstLine` counts from 1. */
export type Lines = { lines: string[]; firstLine: number; endByte: number };
type Options = { rowBytes: number; fromByte: number };

const NEWLINE = 0x0a;
const BLOCK_BYTES = 256 * 1024;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const BYTE_ORDER_MARK = "\ufeff";

/** Yields whole lines of UTF-8 in blocks. At most one line and one block are in memory. */
export async function* linesOf(
  file: SourceFile,
  source: AsyncIterable<Uint8Array>,
  { rowBytes, fromByte }: Options,
): AsyncGenerator<Lines> {
  let parts: Uint8Array[] = []; // parts of a line without an end so far
  let held = 0;
  let endByte = fromByte;
  let line = 1;
  const finish = (last: Uint8Array): Lines => {
    const block = parts.length === 0 ? last : Buffer.concat([...parts, last]);
    const text = decoded(file, block, line);
    const lines = (endByte === 0 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text).split("\n");
    if (block.at(-1) === NEWLINE) lines.pop();
    const firstLine = line;
    endByte += block.byteLength;
    line += lines.length;
    parts = [];
    held = 0;
    return { lines, firstLine, endByte };
  };
  for await (const chunk of source)
    for (let at = 0; at < chunk.byteLength; at += BLOCK_BYTES) {
      const block = chunk.subarray(at, at + BLOCK_BYTES);
      const end = block.lastIndexOf(NEWLINE) + 1;
      if (end > 0) yield finish(block.subarray(0, end));
      if (end === block.byteLength) continue;
      parts.push(block.slice(end)); // copied because the chunk's memory belongs to the stream
      held += block.byteLength - end;
      if (held > rowBytes) throw tooLong(file, `line ${line}`, rowBytes);
    }
  if (held > 0) yield finish(new Uint8Array(0));
}

function decoded(file: SourceFile, block: Uint8Array, firstLine: number): string {
  try {
    return utf8.decode(block);
  } catch (cause) {
    throw badRows(file, `line ${lineOfFault(block, firstLine)} is not valid UTF-8`, cause);
  }
}

function lineOfFault(block: Uint8Array, firstLine: number): number {
  let line = firstLine;
  for (let from = 0; from < block.byteLength; line++) {
    const end = block.indexOf(NEWLINE, from);
    const to = end < 0 ? block.byteLength : end + 1;
    try {
      utf8.decode(block.subarray(from, to));
    } catch {
      return line;
    }
    from = to;
  }
  return line;
}
