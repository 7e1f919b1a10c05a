import { expect, test } from "bun:test";
import { tarIndex } from "./tar_index.ts";
import { tarChunks, tarHeader } from "./tar_write.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const entry = (name: string, text: string) => ({
  name,
  size: bytesOf(text).length,
  content: async function* () {
    yield bytesOf(text);
  },
});
const indexOf = (archive: Uint8Array) =>
  tarIndex(async (offset, bytes) => archive.subarray(offset, offset + bytes), archive.length);

test("the positions of the files in an archive are found without their contents", async () => {
  const files = [entry("a.json", "{}"), entry("b/empty", ""), entry("c.bin", "x".repeat(1_000))];
  const archive = Buffer.concat(await Array.fromAsync(tarChunks(files)));
  const spans = await indexOf(archive);
  expect(spans.map(({ name, size }) => [name, size])).toEqual([
    ["a.json", 2],
    ["b/empty", 0],
    ["c.bin", 1_000],
  ]);
  const { offset, size } = spans[2]!;
  expect(archive.subarray(offset, offset + size).toString()).toBe("x".repeat(1_000));
});

test("an archive that was cut, or that has something else than files, is refused", async () => {
  const archive = Buffer.concat(await Array.fromAsync(tarChunks([entry("c.bin", "x".repeat(1_000))])));
  await expect(indexOf(archive.subarray(0, 1_000))).rejects.toThrow("ends in the middle of c.bin");
  await expect(indexOf(Buffer.from(tarHeader("d", 0, "5")))).rejects.toThrow("only files");
});
