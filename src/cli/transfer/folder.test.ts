import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tarBlock } from "../../../test/archives.ts";
import { tempDir } from "../../../test/harness.ts";
import { folderNamed, isFolderName, toFolder } from "./folder.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true }));
const at = (name: string) => join(dir, name);

const tarOf = (...entries: Parameters<typeof tarBlock>[0][]) =>
  Buffer.concat([...entries.map(tarBlock), new Uint8Array(1024)]);
async function* chunksOf(bytes: Uint8Array) {
  for (let i = 0; i < bytes.byteLength; i += 700) yield bytes.subarray(i, i + 700);
}
const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

test("an archive becomes a folder with the same files, also in an empty one", async () => {
  const config = '{"model_type":"llama"}';
  const bytes = tarOf({ name: "config.json", content: config }, { name: "a/b.bin", content: "x".repeat(3000) });
  mkdirSync(at("empty"));
  for (const name of ["new", "deep/new", "empty"]) {
    await toFolder(at(name))(chunksOf(bytes), sha256(bytes));
    expect(readFileSync(join(at(name), "config.json"), "utf8")).toBe(config);
    expect(readFileSync(join(at(name), "a/b.bin"), "utf8")).toBe("x".repeat(3000));
  }
});

test.each<[string, Uint8Array, string]>([
  ["leads out", tarOf({ name: "../evil", content: "x" }), "leads out of the archive"],
  ["is absolute", tarOf({ name: "/evil", content: "x" }), "absolute path"],
  ["is a link", tarOf({ name: "link", type: "2" }), "a symbolic link"],
  ["comes twice", tarOf({ name: "a", content: "x" }, { name: "./a", content: "y" }), "is there twice"],
  ["is cut", tarOf({ name: "a", content: "x".repeat(600) }).subarray(0, 700), "truncated"],
])("an entry that %s leaves nothing behind", async (_what, bytes, message) => {
  const before = readdirSync(dir);
  expect(toFolder(at("bad"))(chunksOf(bytes))).rejects.toThrow(message);
  await toFolder(at("bad"))(chunksOf(bytes)).catch(() => {});
  expect(readdirSync(dir)).toEqual(before);
});

test("damaged bytes leave nothing behind, and nothing of the user is replaced", async () => {
  const bytes = tarOf({ name: "a", content: "x" });
  const failed = await toFolder(at("damaged"))(chunksOf(bytes), "0".repeat(64)).catch((error: Error) => error);
  expect(String(failed)).toContain("damaged");
  expect(existsSync(at("damaged"))).toBe(false);
  mkdirSync(at("full"));
  writeFileSync(at("full/mine"), "");
  expect(() => folderNamed("--out", at("full"))).toThrow("is not empty");
  expect(() => folderNamed("--out", at("full/mine"))).toThrow("is a file");
  symlinkSync("full", at("link"));
  expect(() => folderNamed("--out", at("link"))).toThrow("is not empty");
  expect([at("full"), "new/", at("full/mine"), "nothing"].map(isFolderName)).toEqual([true, true, false, false]);
});
