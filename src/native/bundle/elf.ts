/** Reads which libraries an ELF file needs from the dynamic linker. 64-bit, little endian. */
import { closeSync, openSync } from "node:fs";
import { readIntoSync } from "../../platform/files.ts";

export type ElfNeeds = {
  /** The dynamic linker; null for a static executable or a library. */
  interpreter: string | null;
  libraries: string[];
};

const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_INTERP = 3;
const DT_NEEDED = 1n;
const DT_STRTAB = 5n;
const HEADER_BYTES = 64;
const MAX_NAME_BYTES = 4096;

type Segment = { type: number; offset: number; address: number; fileBytes: number };

/** Throws if the file is not a 64-bit ELF file. */
export function elfNeeds(path: string): ElfNeeds {
  const fd = openSync(path, "r");
  try {
    const at = (offset: number, bytes: number): Buffer => {
      const buffer = Buffer.alloc(bytes);
      return buffer.subarray(0, readIntoSync(fd, buffer, offset));
    };
    const header = at(0, HEADER_BYTES);
    if (header.length < HEADER_BYTES || header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2 || header[5] !== 1) {
      throw new Error(`${path} is not a 64-bit ELF file`);
    }
    const segments = readSegments(header, at);
    const interpreter = segments.find(({ type }) => type === PT_INTERP);
    return {
      interpreter: interpreter ? cText(at(interpreter.offset, Math.min(interpreter.fileBytes, MAX_NAME_BYTES))) : null,
      libraries: readNeeded(segments, at),
    };
  } finally {
    closeSync(fd);
  }
}

type Reader = (offset: number, bytes: number) => Buffer;
const cText = (bytes: Buffer): string => {
  const end = bytes.indexOf(0);
  return bytes.toString("utf8", 0, end < 0 ? bytes.length : end);
};

function readSegments(header: Buffer, at: Reader): Segment[] {
  const [size, count] = [header.readUInt16LE(54), header.readUInt16LE(56)];
  const table = at(Number(header.readBigUInt64LE(32)), size * count);
  return Array.from({ length: Math.floor(table.length / size) }, (_, i) => {
    const entry = table.subarray(i * size);
    return {
      type: entry.readUInt32LE(0),
      offset: Number(entry.readBigUInt64LE(8)),
      address: Number(entry.readBigUInt64LE(16)),
      fileBytes: Number(entry.readBigUInt64LE(32)),
    };
  });
}

function readNeeded(segments: readonly Segment[], at: Reader): string[] {
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC);
  if (dynamic === undefined) return [];
  const table = at(dynamic.offset, dynamic.fileBytes);
  const entries = Array.from({ length: Math.floor(table.length / 16) }, (_, i) => ({
    tag: table.readBigInt64LE(i * 16),
    value: Number(table.readBigUInt64LE(i * 16 + 8)),
  }));
  const strings = entries.find(({ tag }) => tag === DT_STRTAB)?.value;
  const home = segments.find(
    (s) => s.type === PT_LOAD && strings !== undefined && strings >= s.address && strings < s.address + s.fileBytes,
  );
  if (strings === undefined || home === undefined) return [];
  const offset = strings - home.address + home.offset;
  return entries.filter(({ tag }) => tag === DT_NEEDED).map(({ value }) => cText(at(offset + value, MAX_NAME_BYTES)));
}
