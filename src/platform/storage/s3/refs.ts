import { z } from "zod";
import { outside, readOutside } from "../../../lib/json/outside.ts";
import { failpoint } from "../../failpoint.ts";
import { eachOf, inGroups } from "../batches.ts";
import type { Head } from "../storage.ts";
import type { Bucket } from "./bucket.ts";
import { BucketError } from "./errors.ts";
import { escapeKey, escapePrefix, sectionsAfter, unescapeKey } from "./names.ts";

const Ref = z.strictObject({
  /** Below objects/. */
  object: z.string().regex(/^[0-9a-z-]{1,80}$/),
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** The key that it was adopted from. */
  from: z.string().max(10_000).optional(),
});
export type Ref = z.output<typeof Ref>;
const REF = outside("a reference in the bucket", Ref);
export type Refs = ReturnType<typeof openRefs>;

/** Key → which content. One small object each, which a PUT replaces as a whole. */
export function openRefs(bucket: Bucket) {
  async function read(key: string): Promise<(Ref & { updatedAt: number }) | undefined> {
    const content = await bucket.readText(`refs/${escapeKey(key)}`);
    if (!content) return undefined;
    try {
      return { ...readOutside(REF, content.text), updatedAt: content.updatedAt };
    } catch (cause) {
      const fix = `what it says of ${JSON.stringify(key)} was not written by us. Give verk a bucket or a prefix of its own`;
      throw new BucketError(bucket.place, "read", fix, cause);
    }
  }

  async function write(key: string, ref: Ref) {
    failpoint("storage.before_name");
    await bucket.put(`refs/${escapeKey(key)}`, JSON.stringify(ref));
    failpoint("storage.after_name");
  }

  const remove = (key: string) => bucket.remove(`refs/${escapeKey(key)}`);

  /** In byte order. */
  async function* keys(prefix = "", after = "", page = 1000): AsyncGenerator<string> {
    const folders = prefix.split("/");
    const last = folders.pop() ?? "";
    if (folders.some((folder) => ["", ".", ".."].includes(folder))) return; // no key has such a part
    // Nor may a server be searched for it, though `..a` begins with `..`
    const searched = last === "." || last === ".." ? prefix.slice(0, -last.length) : prefix;
    const start = after === "" ? "" : escapeKey(after);
    for (const section of sectionsAfter(escapePrefix(searched), start))
      for await (const { name } of bucket.list("refs/", { ...section, page })) {
        const key = unescapeKey(name);
        if (key?.startsWith(prefix)) yield key;
      }
  }

  async function head(key: string): Promise<Head | undefined> {
    const ref = await read(key);
    return ref && { key, bytes: ref.bytes, sha256: ref.sha256, updatedAt: ref.updatedAt };
  }

  /** Every content that has a name. */
  async function named(): Promise<Set<string>> {
    const objects = new Set<string>();
    for await (const some of inGroups(keys()))
      for (const ref of await eachOf(some, read)) if (ref) objects.add(ref.object);
    return objects;
  }

  return { read, write, remove, keys, head, named };
}
