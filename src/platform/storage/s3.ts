import { UsageError } from "../../lib/errors.ts";
import type { Chunks, Written } from "../files.ts";
import { eachOf } from "./batches.ts";
import type { OnDamage } from "./damage.ts";
import { openBucket, type S3Settings } from "./s3/bucket.ts";
import { openContent } from "./s3/content.ts";
import { BucketError } from "./s3/errors.ts";
import type { FetchOptions } from "./s3/fetch.ts";
import { newObjectName } from "./s3/names.ts";
import { presigner } from "./s3/presign.ts";
import { openRefs } from "./s3/refs.ts";
import { Pins, sweepOnce } from "./s3/sweep.ts";
import { upload } from "./s3/upload.ts";
import {
  type Body,
  type ByteRange,
  checkKey,
  type Head,
  type Opened,
  type Page,
  type PutOptions,
  type Storage,
} from "./storage.ts";

/**
 * objects/<name>  content, written once under a random name, never changed
 * refs/<key>!0    key → which content, its size and hash; a small JSON object, replaced by one PUT
 * uploads/<name>  an upload in parts is under way, or was when a process crashed
 * staging/<name>  what a client sends to a presigned address
 * Content is whole before a ref names it, and is removed only by `sweep`, when no ref does. One process owns the prefix.
 */
export type S3Options = FetchOptions & { now?: () => number; onDamage?: OnDamage };

export function openS3Storage(
  settings: S3Settings,
  { now = Date.now, onDamage = () => {}, ...options }: S3Options = {},
): Storage {
  checkSettings(settings);
  const bucket = openBucket(settings, options);
  const refs = openRefs(bucket);
  const pins = new Pins();

  async function put(key: string, body: Body, options: PutOptions = {}): Promise<Written> {
    checkKey(key);
    const object = newObjectName();
    pins.hold(object);
    try {
      const written = await upload(bucket, object, chunksOf(body), options);
      await refs.write(key, { object, ...written });
      pins.named(object);
      return written;
    } finally {
      pins.release(object);
    }
  }

  async function get(key: string, range: ByteRange = { offset: 0 }): Promise<Opened | undefined> {
    checkKey(key);
    for (let left = 5; ; left--) {
      const ref = await refs.read(key);
      if (!ref) return undefined;
      const offset = Math.min(Math.max(0, range.offset), ref.bytes);
      const bytes = Math.min(range.length ?? ref.bytes, ref.bytes - offset);
      const stream = await openContent({ bucket, pins, ref, onDamage }, { offset, bytes });
      if (stream) return { stream, bytes, totalBytes: ref.bytes, sha256: ref.sha256 };
      if (left > 0) continue; // overwritten and swept since we read the ref
      throw new BucketError(bucket.place, "read", "the content of a file is missing from it", undefined);
    }
  }

  async function head(key: string): Promise<Head | undefined> {
    checkKey(key);
    return refs.head(key);
  }

  async function remove(key: string) {
    checkKey(key);
    await refs.remove(key);
  }

  async function list(
    prefix: string,
    { after = "", limit = 1000 }: { after?: string; limit?: number } = {},
  ): Promise<Page> {
    const items: Head[] = [];
    let some: string[] = [];
    const take = async () => {
      for (const item of await eachOf(some, refs.head)) if (item) items.push(item); // else deleted while we looked
      some = [];
    };
    for await (const key of refs.keys(prefix, after, Math.min(1000, limit + 1))) {
      if (items.length + some.length === limit) await take();
      if (items.length === limit) return { items, next: items.at(-1)?.key };
      some.push(key);
    }
    await take();
    return { items, next: undefined };
  }

  let sweeping: ReturnType<typeof sweepOnce> | undefined;
  function sweep(graceMs: number) {
    sweeping ??= pins
      .during(() => sweepOnce({ bucket, refs, pins, now, graceMs }))
      .finally(() => {
        sweeping = undefined;
      });
    return sweeping;
  }

  const presign = presigner({ bucket, refs, pins, now });
  return { put, get, head, delete: remove, list, sweep, presign };
}

const MAX_PREFIX_BYTES = 100;

function checkSettings({
  s3_bucket: name,
  s3_prefix: prefix,
  s3_access_key_id: id,
  s3_secret_access_key: key,
}: S3Settings) {
  if (name === "") throw new UsageError("storage.s3_bucket is empty: name the bucket, which storage.kind = s3 needs");
  if ((id === "") !== (key === ""))
    throw new UsageError(
      "storage.s3_access_key_id and storage.s3_secret_access_key belong together: one of them is empty",
    );
  if (Buffer.byteLength(prefix) > MAX_PREFIX_BYTES)
    throw new UsageError(`storage.s3_prefix is longer than ${MAX_PREFIX_BYTES} bytes: choose a shorter one`);
  if (/^\/|\/\/|(^|\/)\.\.?(\/|$)/.test(prefix))
    throw new UsageError("storage.s3_prefix may not begin with / nor hold //, . or .. as a part: write it as verk/");
}

function chunksOf(body: Body): Chunks {
  if (body instanceof Blob) return body.stream();
  return body instanceof Uint8Array ? [body] : body;
}
