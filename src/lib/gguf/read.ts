import { MIB } from "../units.ts";
import { GgufError, type Header, LIMITS, parseGguf } from "./parse.ts";

const FIRST_BYTES = MIB;

/** Reads from a position of the file into the buffer and returns the number of bytes read. */
export type ReadAt = (buffer: Uint8Array, offset: number, length: number, position: number) => Promise<number>;

/** Reads only as much of the beginning as the parser needs, at least doubling each time. */
export async function readHeader(read: ReadAt, fileSize: number): Promise<Header> {
  let bytes = await readStart(read, Math.min(FIRST_BYTES, fileSize));
  for (;;) {
    const parsed = parseGguf(bytes, fileSize);
    if (!("need" in parsed)) return parsed;
    const wanted = Math.max(parsed.need, Math.min(bytes.byteLength * 2, LIMITS.headerBytes, fileSize));
    bytes = await readStart(read, wanted);
    if (bytes.byteLength < parsed.need) throw new GgufError("The file was truncated while it was read");
  }
}

async function readStart(read: ReadAt, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const count = await read(bytes, at, length - at, at);
    if (count === 0) break;
    at += count;
  }
  return bytes.subarray(0, at);
}
