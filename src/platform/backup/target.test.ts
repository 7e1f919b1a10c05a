import { expect, test } from "bun:test";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { UsageError } from "../../lib/errors.ts";
import { openDirectory, tooLong } from "./target.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const opened = async () => {
  const root = join(tempDir(), "place");
  return { root, target: await openDirectory(root, { create: true }) };
};

test("a directory is made on request, for its owner alone; otherwise it must have backups", async () => {
  const { root, target } = await opened();
  expect([target.name, statSync(join(root, "backups")).mode & 0o777]).toEqual([root, 0o700]);
  expect((await openDirectory(root)).name).toBe(root);
  const error = await openDirectory(tempDir()).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UsageError);
  expect(String(error)).toContain("verk backup create --to");
  writeFileSync(join(root, "file"), "");
  expect(openDirectory(join(root, "file"), { create: true })).rejects.toThrow("create");
});

test("content is written, found, read, listed and removed", async () => {
  const { root, target } = await opened();
  await target.write("backups/b1/manifest.json", bytes("12345"));
  await target.write("backups/b1/deep/part", bytes("1"));
  expect(await target.head("backups/b1/manifest.json")).toMatchObject({ bytes: 5, updatedAt: expect.any(Number) });
  expect(await target.read("backups/b1/manifest.json", 5).then((all) => all && Buffer.from(all).toString())).toBe(
    "12345",
  );
  const listed = await Array.fromAsync(target.list("backups/b1"));
  expect(listed.map(({ name, bytes: size }) => [name, size]).sort()).toEqual([
    ["deep/part", 1],
    ["manifest.json", 5],
  ]);
  await target.remove("backups/b1/manifest.json");
  expect(await target.head("backups/b1/manifest.json")).toBeUndefined();
  expect(statSync(join(root, "backups/b1/deep/part")).mode & 0o077).toBe(0);
});

test("what is missing is no error; what is too long or no file is one", async () => {
  const { root, target } = await opened();
  expect(await target.read("backups/none", 10)).toBeUndefined();
  expect(await Array.fromAsync(target.list("nowhere"))).toEqual([]);
  expect(await target.remove("backups/none")).toBeUndefined();
  writeFileSync(join(root, "long"), "123456");
  expect(target.read("long", 5)).rejects.toThrow(tooLong(join(root, "long"), 5).message);
  mkdirSync(join(root, "folder"));
  expect(target.read("folder", 1e6)).rejects.toThrow("is no file");
});

test("another fault than a missing file is reported with its path", async () => {
  const { root, target } = await opened();
  writeFileSync(join(root, "file"), "");
  for (const [doing, work] of [
    ["read", () => target.head("file/below")],
    ["read", () => target.read("file/below", 1)],
    ["delete", () => target.remove("file/below")],
    ["list", () => Array.fromAsync(target.list("file"))],
  ] as const) {
    const error = await work().then(
      () => "done",
      (reason: unknown) => String(reason),
    );
    expect(error).toContain(doing);
    expect(error).toContain(join(root, "file"));
  }
});
