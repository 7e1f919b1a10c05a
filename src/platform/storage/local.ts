import { mkdirSync, statSync, unlinkSync } from "node:fs";
import { mkdir, readdir, rmdir, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { HOUR_MS } from "../../lib/units.ts";
import * as files from "../files.ts";
import { BlockSums } from "./block_sums.ts";
import { HASHED_FIRST_BYTES, type OnDamage, verifying } from "./damage.ts";
import { openObjects } from "./local_objects.ts";
import { encode, keysBelow, LEAF } from "./ref_names.ts";
import {
  type Body,
  type ByteRange,
  checkKey,
  type Head,
  LostKeyError,
  type Opened,
  type Page,
  type PutOptions,
  type Storage,
} from "./storage.ts";
import { verifiedStream } from "./verified_reads.ts";

/**
 * objects/ab/cdef…  content by its sha256, written once, never changed
 * refs/a/b=         key `a/b` → which content; a small file, replaced atomically. A name that ends in `=` is a key,
 *                   any other is a directory, so `a` and `a/b` may both exist
 * tmp/              what is being written
 * sums/ab/cdef…     sums of the blocks of a large content; see local_sums.ts
 * damaged/          content whose bytes changed on the disk; see local_objects.ts
 * Content is durable before a ref names it, and is removed only by `sweep`, when no ref does: a crash at any point
 * leaves at worst content without a name. One process owns the directory.
 */
const Ref = z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), bytes: z.int() });

export type LocalOptions = { now?: () => number; onDamage?: OnDamage };

export function openLocalStorage(root: string, { now = Date.now, onDamage = () => {} }: LocalOptions = {}): Storage {
  const dirs = { objects: join(root, "objects"), refs: join(root, "refs"), tmp: join(root, "tmp") };
  try {
    const created = Object.values(dirs).filter((dir) => mkdirSync(dir, { recursive: true, mode: 0o700 }));
    if (created.length > 0) files.syncDirSync(root);
  } catch (error) {
    throw files.asStorageError(root, "create", error);
  }
  const objects = openObjects(root, onDamage);
  const refPath = (key: string) => join(dirs.refs, ...checkKey(key).map(encode)) + LEAF;
  /** Content between "found or written" and "named": a sweep must not take it away. Counted, puts may share one. */
  const pinned = new Map<string, number>();
  /** Content named since the running sweep read the refs. */
  let namedMeanwhile: Set<string> | undefined;

  async function put(
    key: string,
    body: Body,
    { meter = files.UNCOUNTED, ...options }: PutOptions = {},
  ): Promise<files.Written> {
    const ref = refPath(key);
    const temp = files.tempPath(dirs.tmp);
    let pin: string | undefined;
    try {
      const sums = new BlockSums();
      const written = await files.writeTemp(temp, chunksOf(body), {
        ...options,
        meter,
        onChunk: (chunk) => sums.add(chunk),
      });
      pin = written.sha256;
      pinned.set(pin, (pinned.get(pin) ?? 0) + 1);
      await objects.keep(temp, written, sums.finish());
      await writeRef(ref, written);
      namedMeanwhile?.add(pin);
      return written;
    } catch (error) {
      throw files.asStorageError(ref, "write", error);
    } finally {
      await unlink(temp).catch(() => {}); // renamed, or never made
      if (pin !== undefined) unpin(pin);
    }
  }

  function unpin(sha256: string) {
    const left = pinned.get(sha256)! - 1;
    if (left === 0) pinned.delete(sha256);
    else pinned.set(sha256, left);
  }

  /** Directories of refs whose own entry is known to be on disk. */
  const durable = new Set<string>();

  async function writeRef(path: string, ref: files.Written) {
    const temp = files.tempPath(dirs.tmp);
    await files.writeTemp(temp, [new TextEncoder().encode(JSON.stringify(ref))], { meter: files.UNCOUNTED });
    try {
      for (let left = 5; ; left--) {
        const created = await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        if (created) durable.clear();
        try {
          await files.renameDurably(temp, path);
          break;
        } catch (error) {
          // a concurrent delete pruned the directory that was just made
          if (left === 0 || files.errorCode(error) !== "ENOENT") throw error;
        }
      }
      for (let dir = dirname(path); dir !== dirs.refs && !durable.has(dir); dir = dirname(dir)) {
        await files.syncDir(dirname(dir));
        durable.add(dir);
      }
    } catch (error) {
      await unlink(temp).catch(() => {}); // renamed already
      throw error;
    }
  }

  async function head(key: string): Promise<Head | undefined> {
    const path = refPath(key);
    const ref = await files.readJson(path, Ref);
    const stats = ref && (await stat(path).catch(() => undefined));
    return stats ? { key, ...ref, updatedAt: Math.round(stats.mtimeMs) } : undefined;
  }

  async function get(key: string, range: ByteRange = { offset: 0 }): Promise<Opened | undefined> {
    for (let left = 5; ; left--) {
      const ref = await files.readJson(refPath(key), Ref);
      if (!ref) return undefined;
      const offset = Math.min(Math.max(0, range.offset), ref.bytes);
      const bytes = Math.min(range.length ?? ref.bytes, ref.bytes - offset);
      const opened = await objects.openContent(ref);
      if (!opened) {
        if (left > 0) continue; // overwritten and swept since we read the ref
        throw new LostKeyError(key);
      }
      const part = { offset, bytes };
      const content = verifiedStream(objects.blocksOf(opened, ref), part);
      const damaged = (why: string) => objects.quarantine(ref.sha256, opened.ino, why);
      const isHashed = bytes === ref.bytes && bytes > HASHED_FIRST_BYTES;
      return {
        bytes,
        totalBytes: ref.bytes,
        sha256: ref.sha256,
        stream: isHashed ? verifying(content, ref, damaged) : content,
        file: (verifyFirst = Number.POSITIVE_INFINITY) => objects.verifiedPath(ref, part, verifyFirst),
      };
    }
  }

  async function remove(key: string) {
    const path = refPath(key);
    try {
      await unlink(path);
      await files.syncDir(dirname(path));
      for (let dir = dirname(path); dir !== dirs.refs; dir = dirname(dir)) {
        durable.delete(dir);
        await rmdir(dir);
      }
    } catch (error) {
      if (!["ENOENT", "ENOTDIR", "ENOTEMPTY", "EEXIST"].includes(files.errorCode(error) ?? ""))
        throw files.asStorageError(path, "delete", error);
    }
  }

  async function list(
    prefix: string,
    { after = "", limit = 1000 }: { after?: string; limit?: number } = {},
  ): Promise<Page> {
    const items: Head[] = [];
    for await (const key of keysBelow(dirs.refs, "", prefix, after)) {
      if (items.length === limit) return { items, next: items.at(-1)?.key };
      const item = await head(key);
      if (item) items.push(item); // else it was deleted while we looked
    }
    return { items, next: undefined };
  }

  let sweeping: ReturnType<typeof sweepOnce> | undefined;
  function sweep(graceMs: number) {
    sweeping ??= sweepOnce(graceMs).finally(() => {
      sweeping = undefined;
    });
    return sweeping;
  }

  async function sweepOnce(graceMs: number) {
    const removed = { objects: 0, bytes: 0 };
    namedMeanwhile = new Set();
    try {
      const named = new Set<string>();
      for await (const key of keysBelow(dirs.refs, "", "", "")) {
        const ref = await files.readJson(refPath(key), Ref);
        if (ref) named.add(ref.sha256);
      }
      for (const shard of await readdir(dirs.objects)) {
        for (const rest of await readdir(join(dirs.objects, shard))) {
          const sha256 = shard + rest;
          if (named.has(sha256)) continue;
          // No await from here to unlink: a put either has its pin already, or will find the content gone.
          if (pinned.has(sha256) || namedMeanwhile.has(sha256)) continue;
          const { mtimeMs, size } = statSync(join(dirs.objects, shard, rest));
          if (now() - mtimeMs < graceMs) continue;
          unlinkSync(join(dirs.objects, shard, rest));
          objects.removeSums(sha256);
          removed.objects++;
          removed.bytes += size;
        }
      }
      for (const sha256 of [...objects.damaged]) {
        if (named.has(sha256)) continue;
        objects.removeSums(sha256);
        await objects.forget(sha256);
      }
      await files.cleanTemp(dirs.tmp, Math.max(graceMs, HOUR_MS), now());
    } finally {
      namedMeanwhile = undefined;
    }
    return removed;
  }

  return { put, get, head, delete: remove, list, sweep, verify: objects.verify };
}

function chunksOf(body: Body): files.Chunks {
  if (body instanceof Blob) return body.stream();
  return body instanceof Uint8Array ? [body] : body;
}
