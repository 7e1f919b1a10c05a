import { MIB } from "../units.ts";
import { GgufError, type Header, LIMITS, parseGguf } from "./parse.ts";

const FIRST_BYTES = MIB;

/** Fills the buffer from a position on. Returns the number of bytes, which is smaller only if the file ends before. */
export type ReadInto = (into: Uint8Array, position: number) => Promise<number>;

/** Reads only as much of the beginning as the parser needs, at least doubling each time. */
export async function readHeader(read: ReadInto, fileSize: number): Promise<Header> {
  let bytes = await readStart(read, Math.min(FIRST_BYTES, fileSize));
  for (;;) {
    const parsed = parseGguf(bytes, fileSize);
    if (!("need" in parsed)) return parsed;
    const wanted = Math.max(parsed.need, Math.min(bytes.byteLength * 2, LIMITS.headerBytes, fileSize));
    bytes = await readStart(read, wanted);
    if (bytes.byteLength < parsed.need) throw new GgufError("The file was truncated while it was read");
  }
}

async function readStart(read: ReadInto, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, await read(bytes, 0));
}
