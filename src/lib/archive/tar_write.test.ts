import { expect, test } from "bun:test";
import { createLedger, type Sink } from "./entries.ts";
import { createTarReader } from "./tar_read.ts";
import { EMPTY_TAR_BYTES, tarBytes, tarChunks } from "./tar_write.ts";

test("the reader returns what was written, also names that are too long for a header", async () => {
  const names = ["a.txt", `${"deep/".repeat(40)}ä.bin`, "empty", "x".repeat(100), "y".repeat(101)];
  const entries = names.map((name, i) => {
    const bytes = new TextEncoder().encode(i === 2 ? "" : `content of ${i}`.repeat(i * 100 + 1));
    return {
      name,
      size: bytes.length,
      bytes,
      content: async function* () {
        yield bytes;
      },
    };
  });
  const seen = new Map<string, number>();
  let open = "";
  const sink: Sink = {
    folder: () => {},
    open: (name) => {
      open = name;
      seen.set(name, 0);
    },
    write: (chunk) => void seen.set(open, (seen.get(open) ?? 0) + chunk.length),
    close: () => {},
  };
  const reader = createTarReader(createLedger(1e9), sink);
  for await (const chunk of tarChunks(entries)) reader.push(chunk);
  reader.end();
  expect([...seen]).toEqual(entries.map(({ name, size }) => [name, size]));
});

test("the length of an archive is known before it is written", async () => {
  const written = async (files: { name: string; size: number }[]) => {
    let bytes = 0;
    const content = (size: number) =>
      async function* () {
        yield new Uint8Array(size);
      };
    for await (const chunk of tarChunks(files.map((file) => ({ ...file, content: content(file.size) }))))
      bytes += chunk.length;
    return bytes;
  };
  expect([await written([]), tarBytes([])]).toEqual([EMPTY_TAR_BYTES, EMPTY_TAR_BYTES]);
  for (const name of ["a", "x".repeat(100), "x".repeat(101), "ä".repeat(51), "y".repeat(495), "y".repeat(600)])
    for (const size of [0, 1, 511, 512, 513]) {
      const files = [
        { name, size },
        { name: "b", size: 3 },
      ];
      expect(tarBytes(files)).toBe(await written(files));
    }
});
