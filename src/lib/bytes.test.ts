import { expect, test } from "bun:test";
import { formatBytes } from "./bytes.ts";

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
