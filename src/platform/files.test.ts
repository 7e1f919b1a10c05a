import { afterEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { aside } from "../../test/aside/aside.ts";
import { failpoints } from "./failpoint.ts";
import * as files from "./files.ts";

const scratch = () => mkdtempSync(join(tmpdir(), "verk-files-"));
afterEach(() => {
  delete failpoints.hit;
});
const repeat = async function* (chunk: Uint8Array, times: number) {
  for (let i = 0; i < times; i++) yield chunk;
};
const ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-2 example

test("an atomic write replaces the file, sets its mode and leaves nothing else", async () => {
  const dir = scratch();
  const path = join(dir, "a.json");
  await files.writeFileAtomic(path, "one");
  await files.writeFileAtomic(path, "two", { mode: 0o640 });
  expect(readFileSync(path, "utf8")).toBe("two");
  expect(statSync(path).mode & 0o777).toBe(0o640);
  files.writeFileAtomicSync(path, "three");
  expect(readFileSync(path, "utf8")).toBe("three");
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(dir)).toEqual(["a.json"]);
});

describe.each(["files.before_rename", "files.after_rename"])("a process killed at %s", (point) => {
  test.each(["writeFileAtomic", "writeFileAtomicSync"])("%s leaves the old file or the new one", async (name) => {
    const path = join(scratch(), "a.json");
    writeFileSync(path, "old");
    const script = `
      const { armFailpoint } = await import(${JSON.stringify(`${import.meta.dir}/failpoint.ts`)});
      const files = await import(${JSON.stringify(`${import.meta.dir}/files.ts`)});
      armFailpoint(${JSON.stringify(`${point}:1`)});
      await files.${name}(${JSON.stringify(path)}, "new");`;
    const child = Bun.spawn([process.execPath, "-e", script], { stderr: "ignore" });
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
    expect(readFileSync(path, "utf8")).toBe(point === "files.before_rename" ? "old" : "new");
  });
});

test("hashes agree with the standard, for bytes, files and streams", async () => {
  const path = join(scratch(), "x");
  const written = await files.writeStreamAtomic(path, repeat(new TextEncoder().encode("abc"), 1), {
    expectedSha256: ABC,
    meter: files.UNCOUNTED,
  });
  expect(written).toEqual({ bytes: 3, sha256: ABC });
  expect(files.sha256Bytes("abc")).toBe(ABC);
  expect(await files.sha256File(path)).toBe(ABC);
});

describe("a stream", () => {
  test("of 256 MiB does not pass through memory", async () => {
    const { bytes, growthBytes } = await aside<{ bytes: number; growthBytes: number }>("streamed_file");
    expect(bytes).toBe(256 << 20);
    expect(growthBytes).toBeLessThan(96 << 20);
  });

  test.each([
    ["too long", { maxBytes: 5 }, "too_large"],
    ["of another hash", { expectedSha256: "0".repeat(64) }, "sha256_mismatch"],
  ] as const)("%s is refused and leaves the old file alone", async (_name, options, reason) => {
    const dir = scratch();
    const path = join(dir, "x");
    writeFileSync(path, "old");
    const error = await files
      .writeStreamAtomic(path, repeat(new Uint8Array(3), 2), { ...options, meter: files.UNCOUNTED })
      .catch((e) => e);
    expect(error).toBeInstanceOf(files.ContentError);
    expect(error.reason).toBe(reason);
    expect(readdirSync(dir)).toEqual(["x"]);
    expect(readFileSync(path, "utf8")).toBe("old");
  });

  test("that breaks leaves nothing and tells why", async () => {
    const dir = scratch();
    const broken = (async function* () {
      yield new Uint8Array(9);
      throw new Error("client went away");
    })();
    expect(files.writeStreamAtomic(join(dir, "x"), broken, { meter: files.UNCOUNTED })).rejects.toThrow(
      "client went away",
    );
    await files.writeFileAtomic(join(dir, "y"), "");
    expect(readdirSync(dir)).toEqual(["y"]);
  });

  test("may be a web stream, which is cancelled when it is refused", async () => {
    let cancelled = false;
    const source = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(4)),
      cancel: () => {
        cancelled = true;
      },
    });
    const error = await files
      .writeStreamAtomic(join(scratch(), "x"), source, { maxBytes: 10, meter: files.UNCOUNTED })
      .catch((e) => e);
    expect(error.reason).toBe("too_large");
    expect(cancelled).toBe(true);
  });
});

describe("the disk's faults name the path and the fix", () => {
  test.each([
    ["ENOSPC", "full", "Free some space"],
    ["EDQUOT", "full", "Free some space"],
    ["EROFS", "read_only", "Remount"],
    ["EACCES", "denied", "own this path"],
    ["EIO", "io", "input/output error"],
  ] as const)("%s is %s", (code, reason, fix) => {
    const error = new files.StorageError("/data/x", "write", Object.assign(new Error("boom"), { code }));
    expect(error.reason).toBe(reason);
    expect(error.message).toContain("/data/x");
    expect(error.message).toContain(fix);
  });

  test("a full device is really reported as full", async () => {
    const handle = await import("node:fs/promises").then((fs) => fs.open("/dev/full", "w"));
    const error = await handle.write("x").catch((e) => e);
    await handle.close();
    const wrapped = files.asStorageError("/dev/full", "write", error);
    expect(wrapped).toBeInstanceOf(files.StorageError);
    expect((wrapped as files.StorageError).reason).toBe("full");
  });

  test("a missing directory is an error about the path that was asked for", async () => {
    const path = join(scratch(), "no/such/x");
    const error = await files.writeFileAtomic(path, "").catch((e) => e);
    expect(error).toBeInstanceOf(files.StorageError);
    expect(error.path).toBe(path);
    expect(() => files.writeFileAtomicSync(path, "")).toThrow(files.StorageError);
  });

  test.skipIf(process.getuid?.() === 0)("a directory we may not write to is denied", async () => {
    const dir = scratch();
    chmodSync(dir, 0o500);
    const error = await files.writeFileAtomic(join(dir, "x"), "").catch((e) => e);
    expect(error.reason).toBe("denied");
  });
});

test("JSON is read through its schema; absent is undefined, damaged names the file", async () => {
  const path = join(scratch(), "x.json");
  const Shape = z.strictObject({ a: z.number() });
  expect(await files.readJson(path, Shape)).toBeUndefined();
  await files.writeFileAtomic(path, '{"a": 1}');
  expect(await files.readJson(path, Shape)).toEqual({ a: 1 });
  await files.writeFileAtomic(path, '{"a": ');
  expect(files.readJson(path, Shape)).rejects.toThrow(path);
});

test("cleaning removes old temporary files only, and what SQLite left beside one", async () => {
  const dir = scratch();
  const [old, young] = [files.tempPath(dir), files.tempPath(dir)];
  const journal = `${old}-journal`;
  for (const path of [old, journal, young, join(dir, "kept"), join(dir, ".verk-tmp-mine")]) writeFileSync(path, "");
  for (const path of [old, journal, join(dir, "kept")]) utimesSync(path, 1, 1);
  expect(await files.cleanTemp(dir, 60_000)).toBe(2);
  expect(existsSync(old)).toBe(false);
  expect(readdirSync(dir)).toHaveLength(3);
});

test("a read goes on after a short one, and ends where the file ends", async () => {
  const path = join(scratch(), "a");
  writeFileSync(path, "0123456789");
  const file = await open(path, "r");
  const fd = openSync(path, "r");
  const slow = { read: (into: Uint8Array, at: number, _length: number, from: number) => file.read(into, at, 1, from) };
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
  const tooShort = () => new Error("too short");
  const room = () => new Uint8Array(6);
  for (const each of [file, slow as FileHandle]) {
    expect(text(await files.readExactly(each, room(), 2, tooShort))).toBe("234567");
    expect(await files.readInto(each, room(), 6)).toBe(4);
    expect(await files.readInto(each, room(), 20)).toBe(0);
    await expect(files.readExactly(each, room(), 6, tooShort)).rejects.toThrow("too short");
  }
  expect(text(files.readExactlySync(fd, room(), 2, tooShort))).toBe("234567");
  expect(files.readIntoSync(fd, room(), 6)).toBe(4);
  expect(() => files.readExactlySync(fd, room(), 6, tooShort)).toThrow("too short");
  closeSync(fd);
  await file.close();
});
