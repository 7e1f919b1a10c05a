/** Bundles by an author whose key is trusted, and whose tools are not ours: the manifest is signed, and lies. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tarChunks } from "../../lib/archive/tar_write.ts";
import { sha256Bytes } from "../files.ts";
import { MANIFEST, SIGNATURE } from "./layout.ts";
import { generateKey } from "./minisign/keys.ts";
import { sign } from "./minisign/signature.ts";
import { commentOf, openBundle } from "./read_bundle.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-hostile-bundle-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const key = generateKey();
const CONTENT = new TextEncoder().encode("PWNED");
const file = (path: string, more: object = {}) => ({
  path,
  kind: "document",
  target: null,
  bytes: CONTENT.length,
  sha256: sha256Bytes(CONTENT),
  ...more,
});
const about = {
  format: 1,
  product: "verk",
  version: "9.9.9",
  database_version: 60,
  commit: "abc",
  built_at: "2026-11-17T00:00:00.000Z",
};

type Attack = { files?: unknown; more?: object; text?: string; entries?: string[]; tail?: number };

/** A bundle with these entries, under a manifest that says something else. */
async function bundleOf({ files = [file("docs/a.md")], more = {}, text, entries = ["docs/a.md"], tail = 0 }: Attack) {
  const manifest = new TextEncoder().encode(text ?? JSON.stringify({ ...about, files, ...more }));
  const signature = new TextEncoder().encode(sign(manifest, key, commentOf(manifest)));
  const one = (name: string, bytes: Uint8Array) => ({
    name,
    size: bytes.length,
    content: async function* () {
      yield bytes;
    },
  });
  const all = [one(MANIFEST, manifest), one(SIGNATURE, signature), ...entries.map((name) => one(name, CONTENT))];
  const parts: Uint8Array[] = [];
  for await (const part of tarChunks(all)) parts.push(part.slice());
  const path = join(dir, `${Bun.hash(manifest)}.bundle`);
  writeFileSync(path, Buffer.concat([...parts, Buffer.alloc(tail)]));
  return path;
}

/** Opens, checks and extracts everything, as the commands do. Returns the message. */
async function upgrade(path: string): Promise<string> {
  const into = join(dir, "into");
  mkdirSync(into, { recursive: true });
  try {
    const bundle = await openBundle(path, [key]);
    try {
      await bundle.check();
      for (const each of bundle.manifest.files) await bundle.extract(each, join(into, each.path.replaceAll("/", "_")));
    } finally {
      await bundle.close();
    }
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

const MANY = Array.from({ length: 10_001 }, (_, i) => file(`docs/${i}`));
const ATTACKS: Record<string, [Attack, string]> = {
  "a path outside": [{ files: [file("../PWNED")] }, "files.0.path"],
  "a path in the middle that leads outside": [{ files: [file("docs/../../PWNED")] }, "files.0.path"],
  "an absolute path": [{ files: [file("/tmp/PWNED")] }, "files.0.path"],
  "a path with a NUL": [{ files: [file("docs/PWNED\0")] }, "files.0.path"],
  "a path with a backslash": [{ files: [file("docs\\..\\PWNED")] }, "files.0.path"],
  "a long path": [{ files: [file(`docs/${"x".repeat(100)}`)] }, "files.0.path"],
  "the same path twice": [
    { files: [file("docs/a.md"), file("docs/a.md")], entries: ["docs/a.md", "docs/a.md"] },
    "twice",
  ],
  "10,001 files": [{ files: MANY }, "files: "],
  "no files": [{ files: [] }, "files: "],
  "files that are no list": [{ files: { 0: file("docs/a.md") } }, "files: "],
  "a kind that does not exist": [{ files: [file("docs/a.md", { kind: "link" })] }, "files.0.kind"],
  "more bytes than there are": [{ files: [file("docs/a.md", { bytes: 2 ** 40 })] }, "should have"],
  "more bytes than a number holds": [{ files: [file("docs/a.md", { bytes: 1e300 })] }, "files.0.bytes"],
  "negative bytes": [{ files: [file("docs/a.md", { bytes: -512 })] }, "files.0.bytes"],
  "another hash": [{ files: [file("docs/a.md", { sha256: "0".repeat(64) })] }, "docs/a.md"],
  "a file that is not listed": [{ entries: ["docs/a.md", "docs/PWNED"] }, "should have"],
  "a file under another name": [{ entries: ["docs/b.md"] }, "the header of docs/a.md"],
  "bytes after the end": [{ tail: 512 }, "should have"],
  "a newer format": [{ more: { format: 2 } }, "newer format"],
  "another product": [{ more: { product: "other" } }, "product"],
  "a version that is none": [{ more: { version: `1.2.3-${"a".repeat(200)}` } }, "version"],
  "a long commit": [{ more: { commit: "a".repeat(101) } }, "commit"],
  "a field that we do not know": [{ more: { run: "rm -rf /" } }, 'unknown field "run"'],
  "no JSON": [{ text: "[".repeat(100_000) }, "is not JSON"],
  "a list": [{ text: "[]" }, "cannot be used"],
  "bytes that are not UTF-8": [{ text: "{\udc00" }, "is not JSON"],
};

test.each(Object.keys(ATTACKS))("a signed bundle with %s leaves nothing", async (name) => {
  const [attack, message] = ATTACKS[name] as [Attack, string];
  rmSync(join(dir, "into"), { recursive: true, force: true });
  expect(await upgrade(await bundleOf(attack))).toContain(message);
  expect(readdirSync(join(dir, "into"))).toEqual([]);
});

test("the same bundle without a lie is taken", async () => {
  expect(await upgrade(await bundleOf({}))).toBe("");
  expect(readdirSync(join(dir, "into"))).toEqual(["docs_a.md"]);
});

test("a manifest over its limit is not read", async () => {
  const text = JSON.stringify({ ...about, files: [file("docs/a.md")], note: "x".repeat(8 * 2 ** 20) });
  expect(await upgrade(await bundleOf({ text }))).toContain("not a bundle of Verk");
});
