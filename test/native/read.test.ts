import { afterAll, expect, test } from "bun:test";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openReader } from "../../src/native/shim/read.ts";
import { tempDir } from "../harness.ts";

const path = join(tempDir(), "file");
const content = Uint8Array.from({ length: 100_003 }, (_, i) => (i * 31 + (i >> 8)) & 255);
writeFileSync(path, content);
const fd = openSync(path, "r");
afterAll(() => closeSync(fd));
const read = openReader("");

test("several threads read all bytes of a file from a position", () => {
  for (const [from, length] of [
    [0, content.length],
    [17, 3],
    [99_000, 1003],
    [5, 0],
  ] as const) {
    const into = new Uint8Array(length);
    read(fd, into, from);
    expect(Buffer.compare(into, content.subarray(from, from + length))).toBe(0);
  }
});

test("a file that ends too early and one that is not open are errors", () => {
  expect(() => read(fd, new Uint8Array(10), content.length - 9)).toThrow("The model file was truncated");
  expect(() => read(-1, new Uint8Array(10), 0)).toThrow("The model file cannot be read: errno 9");
});
