/** What is inside the executable, out of its compressed parts. */
import { readFileSync } from "node:fs";
import { zstdDecompressSync } from "node:zlib";
import type { EmbeddedFile } from "./embedded.ts";

type Inflate = (part: string) => Uint8Array;

/** Remembers the last part, which is that of the next file too where files are alike. */
export function createInflate(): Inflate {
  let last: { part: string; content: Uint8Array } | undefined;
  return (part) => {
    if (last?.part !== part) last = { part, content: zstdDecompressSync(readFileSync(part)) };
    return last.content;
  };
}

export function* slicesOf({ parts, from, bytes }: EmbeddedFile, inflate: Inflate): Generator<Uint8Array> {
  let [skip, left] = [from, bytes];
  for (const part of parts) {
    const slice = inflate(part).subarray(skip, skip + left);
    left -= slice.byteLength;
    skip = 0;
    yield slice;
  }
}
