import { afterEach, beforeEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { UsageError } from "../../lib/errors.ts";
import type { EmbeddedGroup } from "./embedded.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-extract-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A fresh module each time: a process that has checked a group once trusts it from then on. */
const load = (): Promise<typeof import("./extract.ts")> => import(`./extract.ts?${crypto.randomUUID()}`);

const CONTENT = { "lib/a.so": "first half|second half", "b.so": "bbb" };

function table(): { demo: EmbeddedGroup } {
  const files = Object.entries(CONTENT).map(([rel, text], i) => {
    const slices = text.split("|").map((slice, j, all) => (j < all.length - 1 ? `${slice}|` : slice));
    const parts = slices.map((slice, j) => {
      const path = join(dir, `part-${i}-${j}.zst`);
      writeFileSync(path, zstdCompressSync(Buffer.from(slice)));
      return path;
    });
    return { rel, bytes: text.length, sha256: createHash("sha256").update(text).digest("hex"), parts, from: 0 };
  });
  return { demo: { hash: "0123456789abcdef", files } };
}

test("a group comes out whole, with every slice in order, and leaves no temporary files", async () => {
  const { ensureGroup, verifyGroup } = await load();
  const out = ensureGroup("demo", dir, table());
  for (const [rel, text] of Object.entries(CONTENT)) expect(readFileSync(join(out, rel), "utf8")).toBe(text);
  expect(verifyGroup("demo", dir, table())).toEqual([]);
  expect(readdirSync(join(dir, "native")).sort()).toEqual(["demo-0123456789abcdef", "lock"]);
});

test.each([
  ["a truncated file", (out: string) => truncateSync(join(out, "b.so"), 1)],
  ["a missing file", (out: string) => rmSync(join(out, "lib/a.so"))],
  ["a changed manifest", (out: string) => writeFileSync(join(out, "manifest.json"), "[]")],
  [
    "a file in place of a folder",
    (out: string) => [rmSync(join(out, "lib"), { recursive: true }), writeFileSync(join(out, "lib"), "")],
  ],
  ["a folder in place of a file", (out: string) => [rmSync(join(out, "b.so")), mkdirSync(join(out, "b.so"))]],
])("the next process replaces a copy with %s", async (_name, damage) => {
  const out = (await load()).ensureGroup("demo", dir, table());
  damage(out);
  const { ensureGroup, verifyGroup } = await load();
  expect(verifyGroup("demo", dir, table())).toHaveLength(_name === "a changed manifest" ? 0 : 1);
  expect(ensureGroup("demo", dir, table())).toBe(out);
  expect(verifyGroup("demo", dir, table())).toEqual([]);
  expect(readFileSync(join(out, "b.so"), "utf8")).toBe("bbb");
});

test("bytes that changed without changing the size are found by the full check and mended after a discard", async () => {
  const out = (await load()).ensureGroup("demo", dir, table());
  writeFileSync(join(out, "b.so"), "bBb");
  const { discardGroup, ensureGroup, verifyGroup } = await load();
  expect(verifyGroup("demo", dir, table())).toEqual([join(out, "b.so")]);
  discardGroup("demo", dir, table());
  ensureGroup("demo", dir, table());
  expect(readFileSync(join(out, "b.so"), "utf8")).toBe("bbb");
});

test("embedded bytes that do not have their hash are never published", async () => {
  const { ensureGroup } = await load();
  const damaged = table();
  writeFileSync(damaged.demo.files[1]!.parts[0]!, zstdCompressSync(Buffer.from("xxx")));
  expect(() => ensureGroup("demo", dir, damaged)).toThrow("The executable is damaged");
  expect(readdirSync(join(dir, "native"))).toEqual(["lock"]);
});

test("what a killed extraction left behind is cleaned up by the next one", async () => {
  mkdirSync(join(dir, "native/tmp-1-1"), { recursive: true });
  writeFileSync(join(dir, "native/tmp-1-1/half.so"), "ha");
  (await load()).ensureGroup("demo", dir, table());
  expect(existsSync(join(dir, "native/tmp-1-1"))).toBe(false);
});

test("libraries of other versions go, those of this one stay", async () => {
  const { ensureGroup, removeOtherVersions } = await load();
  ensureGroup("demo", dir, table());
  mkdirSync(join(dir, "native/demo-ffffffffffffffff"));
  expect(removeOtherVersions(dir, table())).toEqual(["demo-ffffffffffffffff"]);
  expect(readdirSync(join(dir, "native")).sort()).toEqual(["demo-0123456789abcdef", "lock"]);
});

test("a data directory that cannot hold the libraries is the operator's error, with the fix", async () => {
  const { ensureGroup } = await load();
  const file = join(dir, "file");
  writeFileSync(file, "");
  expect(() => ensureGroup("demo", file, table())).toThrow(UsageError);
  expect(() => ensureGroup("demo", file, table())).toThrow("--data");
  expect(() => ensureGroup("absent", dir, table())).toThrow('does not include the "absent" libraries');
});
