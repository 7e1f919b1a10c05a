// tier: all (attacks on the whole program)
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createLedger } from "../../src/lib/archive/entries.ts";
import { createTarReader } from "../../src/lib/archive/tar_read.ts";
import { unpackInto } from "../../src/workers/inspector/archive.ts";
import { directorySink } from "../../src/workers/inspector/directory.ts";
import { paxRecord, type TarEntry, tar, tarGz, zip } from "../archives.ts";
import { manyApps, tempDir } from "../harness.ts";

setDefaultTimeout(120_000);
const CANARY = "c4nary-beside-the-folder";
const home = tempDir();
const { open, closeAll } = manyApps();
afterAll(async () => {
  await closeAll();
  rmSync(home, { recursive: true, force: true });
});

let made = 0;
/** A folder to unpack into, and a canary beside it that a way out would overwrite. */
function yard() {
  const dir = join(home, `yard${made++}`);
  const into = join(dir, "into");
  mkdirSync(into, { recursive: true });
  writeFileSync(join(dir, "canary"), CANARY);
  return {
    dir,
    into,
    isWhole: () =>
      readdirSync(dir).sort().join() === "archive,canary,into" && readFileSync(join(dir, "canary"), "utf8") === CANARY,
  };
}

const OUT = "../won"; // nothing is there: what exists is not overwritten anyway
const TARS: Record<string, TarEntry[]> = {
  "a way out": [{ name: OUT, content: "won" }],
  "a way out from below": [{ name: "a/b/../../../won", content: "won" }],
  "a way out behind a dot": [{ name: "./../won", content: "won" }],
  "a way out in a prefix": [{ name: "won", prefix: "..", content: "won" }],
  "a way out in a pax header": [
    { name: "x", type: "x", content: paxRecord("path", OUT) },
    { name: "ok", content: "won" },
  ],
  "a way out in a long name": [
    { name: "L", type: "L", content: `${OUT}\0` },
    { name: "ok", content: "won" },
  ],
  "an absolute path": [{ name: join(home, "won"), content: "won" }],
  "a symbolic link and a file through it": [
    { name: "l", type: "2" },
    { name: "l/canary", content: "won" },
  ],
  "a hard link": [
    { name: "l", type: "1" },
    { name: "l", content: "won" },
  ],
  "a character device": [{ name: "d", type: "3" }],
  "a block device": [{ name: "d", type: "4" }],
  "a named pipe": [{ name: "p", type: "6" }],
  "a file twice": [
    { name: "a", content: "1" },
    { name: "./a", content: "2" },
  ],
  "a file where a folder is": [
    { name: "a/b", content: "1" },
    { name: "a", content: "2" },
  ],
  "a folder where a file is": [
    { name: "a", content: "1" },
    { name: "a/b", content: "2" },
  ],
  "a backslash": [{ name: "..\\canary", content: "won" }],
  "a drive": [{ name: "C:/canary", content: "won" }],
  "a line end": [{ name: "a\n../canary", content: "won" }],
  "no name": [{ name: "", content: "won" }],
  "a size of its own for all": [
    { name: "g", type: "g", content: paxRecord("size", "1") },
    { name: "a", content: "won" },
  ],
};
const ZIPS: Record<string, Parameters<typeof zip>> = {
  "a way out": [{ name: OUT, content: "won" }],
  "an absolute path": [{ name: join(home, "won"), content: "won" }],
  "a way out before the directory's name": [{ name: OUT, content: "won", says: { name: "ok" } }],
  "a way out in the directory's name": [{ name: "ok", content: "won", says: { name: OUT } }],
  "a symbolic link": [
    { name: "l", content: "..", mode: 0o120777 },
    { name: "l/canary", content: "won" },
  ],
  "a device": [{ name: "d", mode: 0o20644 }],
  "bytes of another entry": [
    { name: "a", content: "x" },
    { name: "b", content: "x", says: { local: 0 } },
  ],
  "a bomb": [{ name: "a", content: new Uint8Array(32 << 20) }],
};

describe.each([
  ["tar.gz", Object.entries(TARS).map(([what, entries]) => [what, tarGz(...entries)] as const)],
  ["zip", Object.entries(ZIPS).map(([what, files]) => [what, zip(...files)] as const)],
] as const)("%s", (format, archives) => {
  test.each(archives.map((each) => [...each] as const))(
    "with %s leaves nothing beside its folder",
    async (_what, bytes) => {
      const { dir, into, isWhole } = yard();
      const path = join(dir, "archive");
      writeFileSync(path, bytes);
      await expect(unpackInto(path, format, directorySink(into, null))).rejects.toThrow();
      expect(isWhole()).toBe(true);
      expect(existsSync(join(home, "won"))).toBe(false);
    },
  );

  test("is refused by the server too, and the server stays unchanged", async () => {
    const app = open();
    for (const [what, bytes] of archives.filter((_, i) => i % 5 === 0)) {
      const form = new FormData();
      form.set("file", new Blob([bytes]), `code.${format}`);
      const { status } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
      expect([what, status]).toEqual([what, 422]);
    }
    expect((await app.call("GET", "/v1/code_artifacts")).body.data).toEqual([]);
  });
});

test("the list has more than 24 archives", () =>
  expect(Object.keys({ ...TARS }).length + Object.keys(ZIPS).length).toBeGreaterThan(24));

test("without the check of names the archive escapes, so it is a real attack", () => {
  const { dir, into } = yard();
  const ledger = { ...createLedger(1_000), file: () => {}, finish: () => ({ fileCount: 1, unpackedBytes: 3 }) };
  const sink = directorySink(into, null);
  const lax = {
    ...sink,
    open(name: string) {
      mkdirSync(dirname(join(into, name)), { recursive: true });
      return sink.open(name);
    },
  };
  const reader = createTarReader(ledger, lax);
  reader.push(tar({ name: "../won", content: "won" }));
  reader.end();
  expect(readFileSync(join(dir, "won"), "utf8")).toBe("won");
});
