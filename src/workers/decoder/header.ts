import { closeSync, fstatSync, openSync } from "node:fs";
import { type Header, parseGguf } from "../../lib/gguf/parse.ts";
import { MIB } from "../../lib/units.ts";
import { readExactlySync } from "../../platform/files.ts";

const FIRST_BYTES = 16 * MIB; // a vocabulary of 150,000 tokens with its merges takes 6 MB

const truncated = () => new Error("The model file is truncated");

/** Reads the header of a model file and blocks meanwhile: decoding threads have nothing else to do. */
export function headerOf(path: string): Header {
  const fd = openSync(path, "r");
  try {
    const { size } = fstatSync(fd);
    for (let length = FIRST_BYTES; ; ) {
      const bytes = readExactlySync(fd, new Uint8Array(Math.min(length, size)), 0, truncated);
      const header = parseGguf(bytes, size);
      if (!("need" in header)) return header;
      if (length >= size) throw truncated();
      length = Math.max(header.need, 2 * length);
    }
  } finally {
    closeSync(fd);
  }
}
