import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { createGunzip, createInflateRaw } from "node:zlib";
import {
  ArchiveError,
  type ArchiveLimits,
  type Contents,
  createLedger,
  type Ledger,
  LIMITS,
  NOWHERE,
  type Sink,
} from "../../lib/archive/entries.ts";
import { createTarReader } from "../../lib/archive/tar_read.ts";
import { readExactly } from "../../platform/files.ts";
import { readZip, type ZipEntry } from "./zip.ts";

const CHUNK = 1 << 18;

type Format = "tar.gz" | "zip" | "tar";

/** Discards the content by default: an accepted archive is known to unpack, and its size is known. */
export async function unpackInto(path: string, format: Format, sink: Sink = NOWHERE, limits: ArchiveLimits = LIMITS) {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const ledger = createLedger(size, limits);
    const contents =
      format === "zip" ? await unzip(file, size, ledger, sink) : await untar(path, format, { ledger, sink });
    return { file_count: contents.fileCount, unpacked_bytes: contents.unpackedBytes };
  } finally {
    await file.close();
  }
}

type Unpacking = { ledger: Ledger; sink: Sink };

async function untar(path: string, format: Format, { ledger, sink }: Unpacking): Promise<Contents> {
  const reader = createTarReader(ledger, sink);
  const source = createReadStream(path, { highWaterMark: CHUNK });
  const chunks = format === "tar" ? source : source.pipe(createGunzip({ chunkSize: CHUNK }));
  source.on("error", (error) => chunks.destroy(error));
  try {
    for await (const chunk of chunks) reader.push(chunk as Uint8Array);
  } catch (error) {
    throw asArchiveError(error, "The file is not a gzip file, or it is damaged");
  } finally {
    source.destroy();
    chunks.destroy();
  }
  return reader.end();
}

async function unzip(file: FileHandle, size: number, ledger: Ledger, sink: Sink): Promise<Contents> {
  const read = (offset: number, length: number) =>
    readExactly(file, new Uint8Array(length), offset, () => new ArchiveError("The archive is truncated"));
  for (const entry of await readZip(read, size, ledger)) {
    sink.open(entry.name);
    await unpackEntry(read, entry, ledger, sink);
    sink.close();
  }
  return ledger.finish();
}

async function unpackEntry(
  read: (offset: number, length: number) => Promise<Uint8Array>,
  entry: ZipEntry,
  ledger: Ledger,
  sink: Sink,
) {
  const lies = new ArchiveError(`${JSON.stringify(entry.name)} does not match its entry in the archive`);
  let [crc, bytes] = [0, 0];
  const take = (chunk: Uint8Array) => {
    bytes += chunk.length;
    ledger.unpack(chunk.length, entry.name);
    if (bytes > entry.bytes) throw lies;
    sink.write(chunk);
    crc = Bun.hash.crc32(chunk, crc);
  };
  try {
    if (entry.method === "stored") for await (const chunk of packed(read, entry)) take(chunk);
    else {
      const inflate = createInflateRaw({ chunkSize: CHUNK });
      const feeding = pipeInto(inflate, packed(read, entry));
      feeding.catch((error) => inflate.destroy(error));
      for await (const chunk of inflate) take(chunk as Uint8Array);
    }
  } catch (error) {
    throw asArchiveError(error, `${JSON.stringify(entry.name)} is damaged`);
  }
  if (bytes !== entry.bytes || crc >>> 0 !== entry.crc32) throw lies;
}

async function* packed(
  read: (offset: number, length: number) => Promise<Uint8Array>,
  { offset, packedBytes }: ZipEntry,
): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < packedBytes; at += CHUNK) yield read(offset + at, Math.min(CHUNK, packedBytes - at));
}

async function pipeInto(into: NodeJS.WritableStream, chunks: AsyncIterable<Uint8Array>) {
  for await (const chunk of chunks)
    if (!into.write(chunk)) await new Promise((go) => into.once("drain", go).once("close", go));
  into.end();
}

/** zlib's errors have a code such as Z_DATA_ERROR. Any other error is a bug or a fault of this machine. */
function asArchiveError(error: unknown, message: string): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && code.startsWith("Z_") ? new ArchiveError(message) : error;
}
