import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListPartsCommand,
  type Part,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { z } from "zod";
import { outside, readOutside } from "../../../lib/json/outside.ts";
import { failpoint } from "../../failpoint.ts";
import { ContentError, type Written } from "../../files.ts";
import { eachOf } from "../batches.ts";
import {
  checkKey,
  type Presign,
  type PresignedGet,
  type PresignedParts,
  type PresignedPut,
  type PutOptions,
} from "../storage.ts";
import type { Bucket } from "./bucket.ts";
import { isNamed } from "./errors.ts";
import { newObjectName, newStaging, readStaging } from "./names.ts";
import type { Refs } from "./refs.ts";
import type { Pins } from "./sweep.ts";

const MAX_PUT_BYTES = 5 * 2 ** 30; // S3's limit, for a copy as well
const MAX_PARTS = 10_000;
const Started = z.strictObject({ uploadId: z.string().max(5_000).optional() });
const STARTED = outside("a started upload in the bucket", Started);

type Parts = { bucket: Bucket; refs: Refs; pins: Pins; now: () => number };

export function presigner({ bucket, refs, pins, now }: Parts): Presign {
  const { client } = bucket;

  async function put({ expiresSeconds, bytes, sha256, contentType }: PresignedPut) {
    const staging = newStaging({ parts: undefined, expiresAt: now() + expiresSeconds * 1000 });
    const checksum = sha256 === undefined ? undefined : Buffer.from(sha256, "hex").toString("base64");
    const headers = {
      ...(contentType === undefined ? {} : { "content-type": contentType }),
      ...(checksum === undefined ? {} : { "x-amz-checksum-sha256": checksum }),
    };
    const command = new PutObjectCommand({
      ...bucket.at(`staging/${staging}`),
      ...(contentType === undefined ? {} : { ContentType: contentType }),
      ...(checksum === undefined ? {} : { ChecksumSHA256: checksum }),
      ...(bytes === undefined ? {} : { ContentLength: bytes }),
    });
    // Signed headers bind the client. Moved into the address they would bind no request.
    const bound = new Set(["host", "content-length", ...Object.keys(headers)]);
    const options = { expiresIn: expiresSeconds, signableHeaders: bound, unhoistableHeaders: bound };
    return { staging, url: await getSignedUrl(client, command, options), headers };
  }

  async function parts({ expiresSeconds, count }: PresignedParts) {
    if (!(count >= 1 && count <= MAX_PARTS)) throw new RangeError(`an upload has 1 to ${MAX_PARTS} parts`);
    const staging = newStaging({ parts: count, expiresAt: now() + expiresSeconds * 1000 });
    const target = bucket.at(`objects/${staging}`);
    await bucket.put(`uploads/${staging}`, "{}"); // before there is anything that a sweep must find
    const { UploadId } = await bucket.call("write to", () => client.send(new CreateMultipartUploadCommand(target)));
    await bucket.put(`uploads/${staging}`, JSON.stringify({ uploadId: UploadId }));
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    const sign = (PartNumber: number) =>
      getSignedUrl(client, new UploadPartCommand({ ...target, UploadId, PartNumber }), { expiresIn: expiresSeconds });
    return { staging, urls: await eachOf(numbers, sign) };
  }

  async function get(key: string, { expiresSeconds, filename, contentType }: PresignedGet) {
    checkKey(key);
    const ref = await refs.read(key);
    if (!ref) return undefined;
    const command = new GetObjectCommand({
      ...bucket.at(`objects/${ref.object}`),
      ...(filename === undefined ? {} : { ResponseContentDisposition: disposition(filename) }),
      ...(contentType === undefined ? {} : { ResponseContentType: contentType }),
    });
    return { url: await getSignedUrl(client, command, { expiresIn: expiresSeconds }) };
  }

  async function adopt(staging: string, key: string, options: PutOptions = {}): Promise<Written | undefined> {
    checkKey(key);
    const { parts } = mustRead(staging);
    const ref = await refs.read(key);
    if (ref?.from === staging) {
      await discard(staging); // the rest of what a crash cut short
      return { bytes: ref.bytes, sha256: ref.sha256 };
    }
    const object = parts === undefined ? newObjectName() : staging;
    pins.hold(object);
    try {
      const written = parts === undefined ? await take(staging, object, options) : await join(staging, parts, options);
      if (!written) return undefined;
      await refs.write(key, { object, ...written, from: staging });
      pins.named(object);
      await discard(staging);
      return written;
    } catch (error) {
      if (error instanceof ContentError) await discard(staging);
      throw error;
    } finally {
      pins.release(object);
    }
  }

  /** One piece: copied, because the client may still write to where it lies. */
  async function take(staging: string, object: string, options: PutOptions): Promise<Written | undefined> {
    const from = bucket.at(`staging/${staging}`);
    for (;;) {
      const staged = await bucket.orMissing("read", () =>
        client.send(new HeadObjectCommand({ ...from, ChecksumMode: "ENABLED" })),
      );
      if (!staged) return undefined;
      const { ETag, ContentLength: bytes = 0, ChecksumSHA256: checksum } = staged;
      requireSize(bytes, options);
      const sentHash = checksum && Buffer.from(checksum, "base64").toString("hex");
      const sha256 = sentHash || (await hashOf(`staging/${staging}`, ETag));
      if (sha256 === undefined) continue; // the client has written again
      requireHash(sha256, options);
      failpoint("storage.before_copy");
      const CopySource = encodeURIComponent(`${from.Bucket}/${from.Key}`);
      const target = bucket.at(`objects/${object}`);
      const copied = await unlessChanged(() =>
        client.send(new CopyObjectCommand({ ...target, CopySource, CopySourceIfMatch: ETag })),
      );
      if (copied) return { bytes, sha256 };
    }
  }

  /** Parts become the object where they are: an address of a part is worth nothing once they have been put together. */
  async function join(staging: string, count: number, options: PutOptions): Promise<Written | undefined> {
    const object = `objects/${staging}`;
    const started = await bucket.readText(`uploads/${staging}`);
    const { uploadId: UploadId } = readOutside(STARTED, started?.text ?? "{}");
    if (UploadId === undefined) return undefined;
    const sent = await partsOf(object, UploadId);
    if (sent) {
      if (sent.length !== count || sent.some((part, i) => part.PartNumber !== i + 1)) return undefined;
      requireSize(
        sent.reduce((sum, part) => sum + (part.Size ?? 0), 0),
        options,
      );
      const MultipartUpload = { Parts: sent.map(({ PartNumber, ETag }) => ({ PartNumber, ETag })) };
      const complete = new CompleteMultipartUploadCommand({ ...bucket.at(object), UploadId, MultipartUpload });
      const done = await bucket.call("write to", () =>
        client.send(complete).catch((error) => {
          if (isNamed(error, "EntityTooSmall")) return undefined; // a part is not all there
          throw error;
        }),
      );
      if (!done) return undefined;
    }
    const joined = await bucket.orMissing("read", () => client.send(new HeadObjectCommand(bucket.at(object))));
    if (!joined) return undefined;
    const bytes = joined.ContentLength ?? 0;
    requireSize(bytes, options);
    const sha256 = await hashOf(object, joined.ETag);
    if (sha256 === undefined) return undefined;
    requireHash(sha256, options);
    return { bytes, sha256 };
  }

  /** Undefined when they have been put together already, or were given up. */
  async function partsOf(object: string, UploadId: string): Promise<Part[] | undefined> {
    const parts: Part[] = [];
    for (let marker: string | undefined, more = true; more; ) {
      const page = { ...bucket.at(object), UploadId, ...(marker === undefined ? {} : { PartNumberMarker: marker }) };
      const listing = await bucket.orMissing("read", () => client.send(new ListPartsCommand(page)));
      if (!listing) return undefined;
      parts.push(...(listing.Parts ?? []));
      more = listing.IsTruncated === true;
      marker = listing.NextPartNumberMarker;
    }
    return parts.sort((a, b) => (a.PartNumber ?? 0) - (b.PartNumber ?? 0));
  }

  /** Undefined when it is no longer the object with this tag. */
  async function hashOf(object: string, IfMatch: string | undefined): Promise<string | undefined> {
    return unlessChanged(async () => {
      const { Body } = await client.send(new GetObjectCommand({ ...bucket.at(object), IfMatch }));
      const hasher = new Bun.CryptoHasher("sha256");
      for await (const chunk of Body as AsyncIterable<Uint8Array>) hasher.update(chunk);
      return hasher.digest("hex");
    });
  }

  const unlessChanged = <T>(request: () => Promise<T>): Promise<T | undefined> =>
    bucket.orMissing("read", () =>
      request().catch((error) => {
        if (isNamed(error, "PreconditionFailed")) return undefined;
        throw error;
      }),
    );

  async function discard(staging: string) {
    const { parts } = mustRead(staging);
    if (parts === undefined) return void (await bucket.remove(`staging/${staging}`));
    await bucket.abortUploads(`objects/${staging}`);
    await bucket.remove(`uploads/${staging}`);
  }

  return { maxPutBytes: MAX_PUT_BYTES, put, parts, get, adopt, discard };
}

function mustRead(staging: string) {
  const read = readStaging(staging);
  if (!read) throw new Error(`${JSON.stringify(staging)} is no staging name`);
  return read;
}

function requireSize(bytes: number, { maxBytes }: PutOptions) {
  if (maxBytes !== undefined && bytes > maxBytes)
    throw new ContentError("too_large", `The content is larger than ${maxBytes} bytes`);
}

function requireHash(sha256: string, { expectedSha256 }: PutOptions) {
  if (expectedSha256 !== undefined && expectedSha256.toLowerCase() !== sha256)
    throw new ContentError("sha256_mismatch", `The content's sha256 is ${sha256}, not ${expectedSha256}`);
}

/** Both spellings: the plain one for old clients, the other for every character. */
function disposition(filename: string): string {
  const plain = filename.replaceAll(/[^\x20-\x7e]|["\\]/g, "_");
  const encoded = encodeURIComponent(filename).replaceAll(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
