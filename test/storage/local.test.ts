import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { failpoints } from "../../src/platform/failpoint.ts";
import { StorageError } from "../../src/platform/files.ts";
import { openLocalStorage } from "../../src/platform/storage/local.ts";
import { storageConformance } from "./conformance.ts";

const roots: string[] = [];
const scratch = () => {
  const root = mkdtempSync(join(tmpdir(), "verk-storage-"));
  roots.push(root);
  return root;
};
afterEach(() => {
  delete failpoints.hit;
});
// The conformance suite shares one storage between tests, so a root lives as long as the file.
afterAll(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

storageConformance("local", () => openLocalStorage(scratch()));

const bytes = (text: string) => new TextEncoder().encode(text);
const filesUnder = (root: string) =>
  (readdirSync(root, { recursive: true }) as string[]).filter((path) => statSync(join(root, path)).isFile());

test("equal content is kept once, and nothing is written outside the root", async () => {
  const root = scratch();
  const storage = openLocalStorage(join(root, "in"));
  for (const key of ["a", "b/c", "%2e%2e/x", "..\\..\\y"]) await storage.put(key, bytes("same"));
  expect(readdirSync(root)).toEqual(["in"]);
  expect(filesUnder(join(root, "in/objects"))).toHaveLength(1);
  expect(filesUnder(join(root, "in/refs"))).toHaveLength(4);
  expect(filesUnder(join(root, "in/tmp"))).toEqual([]);
});

test("deleting the last key of a directory leaves no empty directories", async () => {
  const root = scratch();
  const storage = openLocalStorage(root);
  await storage.put("a/b/c/d", bytes("x"));
  await storage.put("a/e", bytes("x"));
  await storage.delete("a/b/c/d");
  expect(readdirSync(join(root, "refs/a"))).toEqual(["e="]);
  await storage.delete("a/e");
  expect(readdirSync(join(root, "refs"))).toEqual([]);
});

test("a sweep with no grace removes exactly the content that no key names", async () => {
  const root = scratch();
  const storage = openLocalStorage(root);
  await storage.put("kept", bytes("one"));
  await storage.put("gone", bytes("three"));
  await storage.delete("gone");
  expect(await storage.sweep(0)).toEqual({ objects: 1, bytes: 5 });
  expect(filesUnder(join(root, "objects"))).toHaveLength(1);
});

test("a directory is made with its first content; a failed creation is tried again", async () => {
  const root = scratch();
  const storage = openLocalStorage(root);
  expect(readdirSync(join(root, "objects"))).toEqual([]);
  const shard = join(root, "objects", new Bun.CryptoHasher("sha256").update("hello").digest("hex").slice(0, 2));
  writeFileSync(shard, "in the way");
  await expect(storage.put("k", bytes("hello"))).rejects.toBeInstanceOf(StorageError);
  await storage.put("other", bytes("x"));
  rmSync(shard);
  await storage.put("k", bytes("hello"));
  expect(readdirSync(shard)).toHaveLength(1);
});

test("missing content is an error of the disk, not an absent key", async () => {
  const root = scratch();
  const storage = openLocalStorage(root);
  await storage.put("k", bytes("hello"));
  rmSync(join(root, "objects", filesUnder(join(root, "objects"))[0]!));
  expect(storage.get("k")).rejects.toBeInstanceOf(StorageError);
});

test("a directory that a delete removes during a put is made again", async () => {
  const root = scratch();
  const storage = openLocalStorage(root);
  let pruned = 0;
  failpoints.hit = (at) => {
    if (at !== "files.before_rename" || pruned > 0 || !existsSync(join(root, "refs/d"))) return;
    rmdirSync(join(root, "refs/d"));
    pruned++;
  };
  await storage.put("d/k", bytes("x"));
  expect(pruned).toBe(1);
  expect(await storage.head("d/k")).toMatchObject({ bytes: 1 });
});

describe("a process killed at the n-th failpoint of a put", () => {
  test.each([1, 2, 3, 4])("n = %d: the key is the old content or the new one, and the next put works", async (n) => {
    const root = scratch();
    await openLocalStorage(root).put("d/k", bytes("old"));
    const script = `
      const at = (path) => import(${JSON.stringify(`${import.meta.dir}/../../src/platform/`)} + path);
      (await at("failpoint.ts")).armFailpoint("*:${n}");
      await (await at("storage/local.ts")).openLocalStorage(${JSON.stringify(root)}).put("d/k", new TextEncoder().encode("new"));
      console.log("acknowledged");`;
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
    const said = await new Response(child.stdout).text();
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
    expect(said).toBe("");

    const storage = openLocalStorage(root, { now: () => Date.now() + 86_400_000 });
    const found = await new Response((await storage.get("d/k"))!.stream).text();
    expect(found).toBe(n === 4 ? "new" : "old");
    await storage.sweep(0);
    expect(filesUnder(join(root, "tmp"))).toEqual([]);
    expect(filesUnder(join(root, "objects"))).toHaveLength(1);
    expect(await new Response((await storage.get("d/k"))!.stream).text()).toBe(found);
    await storage.put("d/k", bytes("newer"));
    expect((await storage.head("d/k"))!.bytes).toBe(5);
  });
});
