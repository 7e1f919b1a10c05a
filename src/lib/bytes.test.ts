import { expect, test } from "bun:test";
import { formatBytes, parseBytes } from "./bytes.ts";

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1 KiB"],
  [1536, "1.5 KiB"],
  [1_048_575, "1 MiB"],
  [10 * 2 ** 20, "10 MiB"],
  [2 ** 40, "1 TiB"],
  [2 ** 60, "1024 PiB"],
  [-2048, "-2 KiB"],
])("%d bytes read %p", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

test.each([
  ["0", 0],
  ["512", 512],
  ["512 b", 512],
  ["10MiB", 10 * 2 ** 20],
  ["10 MB", 10_000_000],
  ["1.5g", 1.5 * 2 ** 30],
  ["2T", 2 * 2 ** 40],
] as const)("%p is %d bytes", (text, bytes) => expect(parseBytes(text)).toBe(bytes));

test.each(["", "x", "-1", "1..5", "10 XB", "1e3", "99999999P"])("%p is no size", (text) =>
  expect(parseBytes(text)).toBeUndefined(),
);
