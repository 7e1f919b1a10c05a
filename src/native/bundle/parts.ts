/** Decompresses the parts in the executable. */
import { readFileSync } from "node:fs";
import { zstdDecompressSync } from "node:zlib";
import type { EmbeddedFile } from "./embedded.ts";

type Inflate = (part: string) => Uint8Array;

/** Caches the last part, because similar files share a part. */
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
