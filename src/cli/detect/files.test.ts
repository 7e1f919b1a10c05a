import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFiles, readContents } from "./files.ts";

const root = mkdtempSync(join(tmpdir(), "verk-test-"));
const at = (path: string) => join(root, path);
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0]);

beforeAll(() => {
  for (const dir of ["set/b", "set/.hidden", "elsewhere"]) mkdirSync(at(dir), { recursive: true });
  for (const file of ["set/c.png", "set/b/a.png", "set/.dot.png", "set/.hidden/a.png", "elsewhere/x.png", "named.png"])
    writeFileSync(at(file), PNG);
  symlinkSync(at("elsewhere"), at("set/link"));
  symlinkSync(at("set"), at("set/b/round"));
  symlinkSync(at("named.png"), at("set/one.png"));
  symlinkSync(at("nowhere"), at("set/dangling.png"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("a folder is all below it, links followed once, without what begins with a dot", async () => {
  const files = await findFiles([at("named.png"), at("set")]);
  expect(files).toEqual([
    { path: at("named.png"), named: true },
    ...["b/a.png", "c.png", "link/x.png", "one.png"].map((name) => ({ path: at(`set/${name}`), named: false })),
  ]);
});

test("F30 one missing file: it is reported in its place, and the others are found", async () => {
  expect(await findFiles([at("none.png"), at("named.png"), "/dev/null"])).toEqual([
    { path: at("none.png"), named: true, error: "there is no such file or folder" },
    { path: at("named.png"), named: true },
    { path: "/dev/null", named: true, error: "it is neither a file nor a folder" },
  ]);
});

test("the bytes say what a file is, and what is too large or of another kind is not read", async () => {
  expect(await readContents(at("named.png"), 100)).toEqual({ kind: "image", bytes: new Uint8Array(PNG) });
  expect(await readContents(at("named.png"), 9)).toEqual({ kind: "large", size: 10 });
  writeFileSync(at("text.png"), "no image at all");
  expect(await readContents(at("text.png"), 9)).toBe("other");
  writeFileSync(at("empty.png"), "");
  expect(await readContents(at("empty.png"), 9)).toBe("other");
  const tagged = Buffer.concat([Buffer.from([0x49, 0x44, 0x33, 4, 0, 0, 0, 0, 2, 0]), Buffer.alloc(400)]);
  writeFileSync(at("tagged.mp3"), tagged); // its tag is longer than the first bytes that are read
  expect(await readContents(at("tagged.mp3"), 1_000)).toMatchObject({ kind: "audio" });
});
