import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { takingTurns } from "../../../lib/turns.ts";
import { MIB } from "../../../lib/units.ts";
import { type Chunks, ContentError, type Written } from "../../files.ts";
import type { PutOptions } from "../storage.ts";
import type { Bucket } from "./bucket.ts";

const PART_BYTES = 8 * MIB;
const IN_FLIGHT = 3;

/**
 * A body of unknown length in at most 10,000 parts, S3's limit, which make 1.2 TB. The first 8 GB go in equal parts:
 * some servers want all parts to be equal.
 */
export const partBytes = (number: number) => (number <= 1000 ? PART_BYTES : number <= 4000 ? 32 * MIB : 192 * MIB);

/** `objects/<name>` is whole when this returns, and absent when it throws. */
export async function upload(bucket: Bucket, name: string, body: Chunks, options: PutOptions = {}): Promise<Written> {
  const blocks = new Blocks(body, options);
  try {
    const first = await blocks.next(1);
    if (!blocks.ended) return await uploadParts(bucket, name, blocks, first);
    const written = blocks.finish();
    await bucket.put(`objects/${name}`, first);
    return written;
  } finally {
    await blocks.close();
  }
}

/** `uploads/<name>` is there as long as parts may be, for a sweep after a crash. */
async function uploadParts(bucket: Bucket, name: string, blocks: Blocks, first: Uint8Array): Promise<Written> {
  const target = bucket.at(`objects/${name}`);
  const send = <T>(request: () => Promise<T>) => bucket.call("write to", request);
  await bucket.put(`uploads/${name}`, "{}");
  const { UploadId } = await send(() => bucket.client.send(new CreateMultipartUploadCommand(target)));
  const into = { ...target, UploadId };
  try {
    const MultipartUpload = { Parts: await sendParts(bucket, into, blocks, first) };
    const written = blocks.finish();
    await send(() => bucket.client.send(new CompleteMultipartUploadCommand({ ...into, MultipartUpload })));
    await bucket.remove(`uploads/${name}`);
    return written;
  } catch (error) {
    // The first failure is the one to tell; what this does not remove, a sweep does.
    const aborted = bucket.client.send(new AbortMultipartUploadCommand(into));
    await aborted.then(() => bucket.remove(`uploads/${name}`)).catch(() => {});
    throw error;
  }
}

type Target = { Bucket: string; Key: string; UploadId: string | undefined };

async function sendParts(bucket: Bucket, into: Target, blocks: Blocks, first: Uint8Array): Promise<CompletedPart[]> {
  const parts: CompletedPart[] = [];
  const flying = new Set<Promise<void>>();
  const send = async (PartNumber: number, block: Uint8Array) => {
    const { ETag } = await bucket.call("write to", () =>
      bucket.client.send(new UploadPartCommand({ ...into, PartNumber, Body: block })),
    );
    parts[PartNumber - 1] = { PartNumber, ETag };
    blocks.giveBack(block);
  };
  try {
    for (let number = 1, block = first; block.length > 0; block = await blocks.next(++number)) {
      const part = send(number, block);
      flying.add(part);
      part.then(
        () => flying.delete(part),
        () => {},
      );
      while (flying.size >= (block.length > 32 * MIB ? 1 : IN_FLIGHT)) await Promise.race(flying);
    }
    await Promise.all(flying);
    return parts;
  } finally {
    await Promise.allSettled(flying); // an abort that overtakes a part would leave it behind
  }
}

/** The body cut to the size of parts, hashed and counted; memory is used again, so that a long body needs little. */
class Blocks {
  ended = false;
  private readonly source: AsyncIterator<Uint8Array> | Iterator<Uint8Array>;
  private readonly hasher = new Bun.CryptoHasher("sha256");
  private readonly free: Uint8Array[] = [];
  private rest: Uint8Array = new Uint8Array();
  private bytes = 0;
  private readonly turn = takingTurns();

  constructor(
    body: Chunks,
    private readonly options: PutOptions,
  ) {
    const iterable = body as AsyncIterable<Uint8Array> & Iterable<Uint8Array>;
    this.source = iterable[Symbol.asyncIterator]?.() ?? iterable[Symbol.iterator]();
  }

  /** Empty at the end. */
  async next(number: number): Promise<Uint8Array> {
    const size = partBytes(number);
    const block = this.take(size);
    let filled = 0;
    while (filled < size && !this.ended) {
      if (this.rest.length === 0) await this.pull();
      const piece = this.rest.subarray(0, Math.min(size - filled, MIB));
      block.set(piece, filled);
      this.hasher.update(piece);
      filled += piece.length;
      this.rest = this.rest.subarray(piece.length);
      await this.turn();
    }
    return block.subarray(0, filled);
  }

  giveBack(block: Uint8Array) {
    this.free.push(new Uint8Array(block.buffer as ArrayBuffer));
  }

  /** Throws what is wrong with the body as a whole. */
  finish(): Written {
    const sha256 = this.hasher.digest("hex");
    const { expectedSha256 } = this.options;
    if (expectedSha256 !== undefined && expectedSha256.toLowerCase() !== sha256)
      throw new ContentError("sha256_mismatch", `The content's sha256 is ${sha256}, not ${expectedSha256}`);
    return { bytes: this.bytes, sha256 };
  }

  async close() {
    if (!this.ended) await this.source.return?.();
    this.ended = true;
  }

  private take(size: number): Uint8Array {
    const used = this.free.pop();
    return used?.length === size ? used : new Uint8Array(size);
  }

  private async pull() {
    const { done, value } = await this.source.next();
    if (done) {
      this.ended = true;
      return;
    }
    const { maxBytes = Number.POSITIVE_INFINITY } = this.options;
    this.bytes += value.byteLength;
    if (this.bytes > maxBytes) throw new ContentError("too_large", `The content is larger than ${maxBytes} bytes`);
    this.options.meter?.take(value.byteLength);
    this.rest = value;
  }
}
