import { eachOf, inGroups } from "../batches.ts";
import type { Bucket, Listed } from "./bucket.ts";
import { readStaging } from "./names.ts";
import type { Refs } from "./refs.ts";

/**
 * Content that is being written, named or read by this process: a sweep leaves it alone. What a put has named since
 * the sweep read the names counts too. Other processes, and those that crashed, have the grace.
 */
export class Pins {
  private readonly counts = new Map<string, number>();
  private meanwhile: Set<string> | undefined;

  hold(object: string) {
    this.counts.set(object, (this.counts.get(object) ?? 0) + 1);
  }
  release(object: string) {
    const left = (this.counts.get(object) ?? 1) - 1;
    if (left === 0) this.counts.delete(object);
    else this.counts.set(object, left);
  }
  named(object: string) {
    this.meanwhile?.add(object);
  }
  has(object: string) {
    return this.counts.has(object) || this.meanwhile?.has(object) === true;
  }
  async during<T>(sweep: () => Promise<T>): Promise<T> {
    this.meanwhile = new Set();
    try {
      return await sweep();
    } finally {
      this.meanwhile = undefined;
    }
  }
}

type Sweep = { bucket: Bucket; refs: Refs; pins: Pins; now: () => number; graceMs: number };

export async function sweepOnce({ bucket, refs, pins, now, graceMs }: Sweep) {
  const removed = { objects: 0, bytes: 0 };
  const remove = async (folder: string, doomed: readonly Listed[]) => {
    await eachOf(doomed, ({ name }) => bucket.remove(folder + name));
    removed.objects += doomed.length;
    removed.bytes += doomed.reduce((sum, { bytes }) => sum + bytes, 0);
  };
  const isOld = ({ updatedAt }: Listed) => now() - updatedAt >= graceMs;
  const hasExpired = ({ name }: Listed) => now() - (readStaging(name)?.expiresAt ?? 0) >= graceMs;

  const named = await refs.named();
  for await (const some of inGroups(bucket.list("objects/")))
    await remove(
      "objects/",
      some.filter((object) => !named.has(object.name) && !pins.has(object.name) && isOld(object)),
    );
  for await (const some of inGroups(bucket.list("staging/"))) await remove("staging/", some.filter(hasExpired));
  for await (const upload of bucket.list("uploads/")) {
    const over = readStaging(upload.name) ? hasExpired(upload) : isOld(upload);
    if (!over || pins.has(upload.name)) continue;
    await bucket.abortUploads(`objects/${upload.name}`);
    await bucket.remove(`uploads/${upload.name}`);
  }
  return removed;
}
