import { expect, test } from "bun:test";
import { batchesOf } from "./batches.ts";
import type { Chunk } from "./source.ts";

async function* cut(text: string, size: number): AsyncGenerator<Chunk> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
}

async function batches(text: string, size: number, limits = { maxLines: 2, maxBytes: 1000 }) {
  const all = await Array.fromAsync(batchesOf(cut(text, size), limits));
  return all.map(({ bytes, firstLine, lines }) => [new TextDecoder().decode(bytes), firstLine, lines]);
}

test("batches end where lines end, however the bytes are cut, and know their place in the file", async () => {
  for (const size of [1, 3, 1000])
    expect(await batches("one\ntwo\r\nthree\nfour", size)).toEqual([
      ["one\ntwo\r\n", 1, 2],
      ["three\nfour", 3, 2],
    ]);
});

test("a line that would make a batch too large begins the next; one that is larger than a batch goes alone", async () => {
  for (const size of [1, 4, 1000])
    expect(await batches(`a\n${"b".repeat(20)}\nc\nd\n`, size, { maxLines: 9, maxBytes: 6 })).toEqual([
      ["a\n", 1, 1],
      [`${"b".repeat(20)}\n`, 2, 1],
      ["c\nd\n", 3, 2],
    ]);
});

test("blank batches are left out, but their lines count", async () => {
  expect(await batches("\n \n\r\n\t\nrow\n", 1000)).toEqual([["row\n", 5, 1]]);
  expect(await batches("", 1)).toEqual([]);
});
