import { pipeline, Readable, type Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { SourceError } from "../types.ts";
import { badRows, type SourceFile } from "./file.ts";
import { ZstdFrames } from "./zstd_frames.ts";

export type Compression = "gzip" | "zstd";

const GZIP = [0x1f, 0x8b];
const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];
/** Known foreign formats, so that the message can name them. */
const FOREIGN: readonly (readonly [name: string, magic: readonly number[]])[] = [
  ["bzip2", [0x42, 0x5a, 0x68]],
  ["xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ["zip", [0x50, 0x4b, 0x03, 0x04]],
];

const begins = (head: Uint8Array, magic: readonly number[]) => magic.every((byte, i) => head[i] === byte);

/** Detects the compression by the first bytes; the file name is ignored. */
export function compressionOf(file: SourceFile, head: Uint8Array): Compression | undefined {
  if (begins(head, GZIP)) return "gzip";
  if (begins(head, ZSTD)) return "zstd";
  const foreign = FOREIGN.find(([, magic]) => begins(head, magic))?.[0];
  if (foreign) throw badRows(file, `it is compressed with ${foreign}, which is not supported. Use gzip or Zstandard`);
  return undefined;
}

/** Decompresses while reading, so that a small file cannot fill the memory. Several streams in a row count as one. */
export async function* unpacked(
  file: SourceFile,
  source: AsyncIterable<Uint8Array>,
  compression: Compression,
): AsyncGenerator<Uint8Array> {
  const frames = compression === "zstd" ? new ZstdFrames() : undefined;
  const unpacker: Transform = frames ? createZstdDecompress() : createGunzip();
  pipeline(Readable.from(watched(source, frames), { objectMode: true, highWaterMark: 1 }), unpacker, () => {});
  try {
    for await (const part of unpacker) yield part as Uint8Array;
  } catch (error) {
    if (error instanceof SourceError) throw error;
    const short = (error as { code?: string }).code === "Z_BUF_ERROR";
    throw badRows(file, `it cannot be decompressed: ${short ? "it is truncated" : (error as Error).message}`, error);
  }
  if (frames && !frames.whole) throw badRows(file, "it cannot be decompressed: it is truncated");
}

async function* watched(source: AsyncIterable<Uint8Array>, frames: ZstdFrames | undefined) {
  for await (const part of source) {
    frames?.push(part);
    yield part;
  }
}
