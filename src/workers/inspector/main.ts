/** Reads model files and archives in a separate process: no outside file is parsed in the server. One at a time. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import tiny from "../../../models/verk-tiny/verk-tiny.gguf" with { type: "file" };
import { ArchiveError, type ArchiveLimits, LIMITS } from "../../lib/archive/entries.ts";
import { CheckpointError } from "../../lib/checkpoints/families.ts";
import { describeServed } from "../../lib/gguf/describe.ts";
import { GgufError } from "../../lib/gguf/parse.ts";
import { readHeader } from "../../lib/gguf/read.ts";
import { errorCode, readInto, StorageError, UNCOUNTED, writeStreamAtomic } from "../../platform/files.ts";
import { type Host, runHosted } from "../host.ts";
import type { ModelShape } from "../protocol.ts";
import { type FromInspector, ToInspector } from "../protocol_inspector.ts";
import { unpackInto } from "./archive.ts";
import { checkFolder, convert } from "./convert/convert.ts";
import { directorySink } from "./directory.ts";

type InspectorHost = Host<ToInspector, FromInspector>;
type FileHandle = Awaited<ReturnType<typeof open>>;

type Unpack = Extract<ToInspector, { type: "unpack" }>;

const limitsOf = ({ limits }: Unpack): ArchiveLimits =>
  limits ? { ...LIMITS, entries: limits.entries, unpackedBytes: limits.bytes } : LIMITS;

const HASH_BYTES = 4 << 20;

export const runInspector = () => runHosted<ToInspector, FromInspector>(ToInspector, serve);

async function serve(host: InspectorHost) {
  for await (const message of host.messages) {
    const { path } = message;
    try {
      if (message.type === "unpack") {
        const sink = message.into === null ? undefined : directorySink(message.into.dir, message.into.owner);
        host.send({ type: "unpacked", path, ...(await unpackInto(path, message.format, sink, limitsOf(message))) });
      } else if (message.type === "place") {
        // A stream, because files inside the executable cannot be opened.
        await writeStreamAtomic(path, Bun.file(tiny).stream(), { expectedSha256: message.sha256, meter: UNCOUNTED });
        host.send({ type: "placed", path });
      } else if (message.type === "check") {
        await checkFolder(message.files);
        host.send({ type: "checked", path });
      } else if (message.type === "convert") {
        const onProgress = reporter(host, path, "converting");
        const { bytes, sha256, shape } = await convert({ ...message, dataDir: message.data_dir, onProgress });
        host.send({ type: "converted", path, shape, size_bytes: bytes, sha256 });
      } else if (message.type === "quantize") {
        const { QUIET_MS, quantize } = await import("./quantize.ts");
        host.beat(QUIET_MS);
        host.send({ type: "quantized", path, ...(await quantize(message)) });
      } else if (message.type === "kernels") {
        const { reasonAgainstKernels } = await import("./kernels.ts");
        host.send({ type: "kernels", path, reason: await reasonAgainstKernels(path) });
      } else if (message.type === "hash") host.send({ type: "hashed", path, ...(await hash(path, host)) });
      else host.send({ type: "inspected", path, ...(await inspect(path, message.hash, host)) });
    } catch (error) {
      const isExpected =
        error instanceof GgufError ||
        error instanceof ArchiveError ||
        error instanceof CheckpointError ||
        ((message.type === "place" || message.type === "convert") && error instanceof StorageError);
      if (!isExpected && !errorCode(error)) throw error;
      host.send({
        type: "refused",
        path,
        error: isExpected ? error.message : `The file cannot be read (${errorCode(error)})`,
      });
    }
  }
}

type Inspection = { shape: ModelShape; size_bytes: number; sha256: string | null };

const inspect = (path: string, hash: boolean, host: InspectorHost): Promise<Inspection> =>
  withFile(path, async (file, size) => {
    const shape = describeServed(await readHeader((into, at) => readInto(file, into, at), size));
    const sha256 = hash ? await hashOf(file, size, path, host) : null;
    return { shape, size_bytes: size, sha256 };
  });

const hash = (path: string, host: InspectorHost) =>
  withFile(path, async (file, size) => ({ size_bytes: size, sha256: await hashOf(file, size, path, host) }));

async function withFile<T>(path: string, use: (file: FileHandle, size: number) => Promise<T>): Promise<T> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK); // opening a named pipe must not block
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new GgufError("It is not a regular file");
    return await use(file, stat.size);
  } finally {
    await file.close();
  }
}

async function hashOf(file: FileHandle, size: number, path: string, host: InspectorHost): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  const buffer = new Uint8Array(HASH_BYTES);
  const report = reporter(host, path, "hashing");
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, at);
    if (bytesRead === 0) return hasher.digest("hex");
    hasher.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
    report(Math.min(1, at / size));
  }
}

/** Reports at most a hundred times. */
function reporter(host: InspectorHost, path: string, type: "hashing" | "converting") {
  let last = 0;
  return (progress: number) => {
    if (progress - last < 0.01) return;
    last = progress;
    host.send({ type, path, progress });
  };
}
