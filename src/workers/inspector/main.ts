/** Looks at model files in a process of its own: no outside file is parsed in the server. One request at a time. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { describe } from "../../lib/gguf/describe.ts";
import { GgufError, type Header, LIMITS, parseGguf } from "../../lib/gguf/parse.ts";
import { errorCode } from "../../platform/files.ts";
import { type Host, runHosted } from "../host.ts";
import { type FromInspector, type ModelShape, ToInspector } from "../protocol.ts";

type InspectorHost = Host<ToInspector, FromInspector>;
type FileHandle = Awaited<ReturnType<typeof open>>;

const FIRST_BYTES = 1 << 20;
const HASH_BYTES = 4 << 20;

export const runInspector = () => runHosted<ToInspector, FromInspector>(ToInspector, serve);

async function serve(host: InspectorHost) {
  for await (const { path, hash } of host.messages) {
    try {
      host.send({ type: "inspected", path, ...(await inspect(path, hash, host)) });
    } catch (error) {
      const known = error instanceof GgufError;
      if (!known && !errorCode(error)) throw error;
      host.send({ type: "refused", path, error: known ? error.message : `Cannot be read (${errorCode(error)})` });
    }
  }
}

type Inspection = { shape: ModelShape; size_bytes: number; sha256: string | null };

async function inspect(path: string, hash: boolean, host: InspectorHost): Promise<Inspection> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK); // a named pipe must not keep us waiting
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new GgufError("Not a regular file");
    const shape = describe(await readHeader(file, stat.size));
    const sha256 = hash ? await hashOf(file, stat.size, path, host) : null;
    return { shape, size_bytes: stat.size, sha256 };
  } finally {
    await file.close();
  }
}

/** Reads only as much of the beginning as the parser asks for, and at least twice as much each time. */
async function readHeader(file: FileHandle, fileSize: number): Promise<Header> {
  let bytes = await readStart(file, Math.min(FIRST_BYTES, fileSize));
  for (;;) {
    const parsed = parseGguf(bytes, fileSize);
    if (!("need" in parsed)) return parsed;
    const wanted = Math.max(parsed.need, Math.min(bytes.byteLength * 2, LIMITS.headerBytes, fileSize));
    bytes = await readStart(file, wanted);
    if (bytes.byteLength < parsed.need) throw new GgufError("The file became shorter while it was read");
  }
}

async function readStart(file: FileHandle, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  while (at < length) {
    const { bytesRead } = await file.read(bytes, at, length - at, at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return bytes.subarray(0, at);
}

async function hashOf(file: FileHandle, size: number, path: string, host: InspectorHost): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  const buffer = new Uint8Array(HASH_BYTES);
  let told = 0;
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, at);
    if (bytesRead === 0) return hasher.digest("hex");
    hasher.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
    const progress = Math.min(1, at / size);
    if (progress - told < 0.01) continue;
    told = progress;
    host.send({ type: "hashing", path, progress });
  }
}
