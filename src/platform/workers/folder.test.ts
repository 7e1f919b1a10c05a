import { afterAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { makeFolder } from "./folder.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-folder-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const file = join(dir, "model.gguf");
writeFileSync(file, "weights");
const make = (id: string, socketDir = join(dir, "run")) => makeFolder({ id, socketDir, givenDir: join(dir, "given") });

test("a file is linked under its name, also twice and through a symbolic link", () => {
  const folder = make("wrk_1");
  symlinkSync(file, join(dir, "alias.gguf"));
  const names = [file, file, join(dir, "alias.gguf")].map((path) => folder.link(path) as string);
  expect(new Set(names).size).toBe(3);
  expect(names[0]).toEndWith("/model.gguf");
  for (const name of names) {
    expect(name).toStartWith(folder.given);
    expect(statSync(name).ino).toBe(statSync(file).ino);
  }
});

test.skipIf(statSync("/dev/shm", { throwIfNoEntry: false })?.dev === statSync(dir).dev)(
  "a file of another file system cannot be linked, and is copied if the caller allows it",
  async () => {
    const elsewhere = mkdtempSync("/dev/shm/verk-folder-");
    try {
      const far = join(elsewhere, "adapter.gguf");
      writeFileSync(far, "far");
      const folder = make("wrk_2");
      expect(folder.link(far)).toBeUndefined();
      const copy = await folder.bring(far);
      expect([copy.startsWith(folder.given), readFileSync(copy, "utf8")]).toEqual([true, "far"]);
    } finally {
      rmSync(elsewhere, { recursive: true, force: true });
    }
  },
);

test("a missing file can be neither linked nor copied", async () => {
  const folder = make("wrk_3");
  expect(folder.link(join(dir, "nothing"))).toBeUndefined();
  expect(folder.bring(join(dir, "nothing"))).rejects.toThrow("ENOENT");
});

test("the end of a worker removes its folders and links, but not the files", async () => {
  const folder = make("wrk_4");
  folder.link(file);
  mkdirSync(join(folder.own, "a/b"), { recursive: true });
  symlinkSync(dir, join(folder.own, "way-out"));
  await folder.remove();
  expect([folder.own, folder.given, file].map(existsSync)).toEqual([false, false, true]);
});

test("a path that is too long for a socket gets a folder of its own, which is removed too", async () => {
  const folder = make("wrk_5", join(dir, "long".repeat(30)));
  expect(Buffer.byteLength(folder.socketPath)).toBeLessThan(108);
  expect(folder.socketPath).not.toStartWith(dir);
  await folder.remove();
  expect(existsSync(dirname(folder.socketPath))).toBe(false);
});
