import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { KIB } from "../../lib/units.ts";
import { BLOCK_BYTES, BlockSums, blocksIn, firstWrong } from "./block_sums.ts";
import { verifiedPieces, verifiedStream } from "./verified_reads.ts";

const PIECE = 256 * KIB;
const content = Buffer.from(Array.from({ length: 3 * PIECE + 100 }, (_, i) => (i * 7 + (i >> 8)) % 251));
/** Sums of the content, given in chunks of this size. */
function sumsOf(size: number): BigUint64Array {
  const sums = new BlockSums();
  for (let at = 0; at < content.length; at += size) sums.add(content.subarray(at, at + size));
  return sums.finish();
}
const right = sumsOf(BLOCK_BYTES);

test("sums are the same for chunks of any size", () => {
  expect(right).toHaveLength(blocksIn(content.length));
  for (const size of [1_000, BLOCK_BYTES - 1, BLOCK_BYTES + 1, content.length]) expect(sumsOf(size)).toEqual(right);
});

async function blocksWith(sums: BigUint64Array | undefined, onWrong: (at: number) => void = () => {}) {
  const path = join(tempDir(), "content");
  writeFileSync(path, content);
  const requests: [first: number, count: number][] = [];
  const wrong: number[] = [];
  const blocks = {
    file: await open(path),
    path,
    totalBytes: content.length,
    readSums: async (first: number, count: number) => {
      requests.push([first, count]);
      return sums?.slice(first, first + count);
    },
    onWrong: async (at: number) => {
      wrong.push(at);
      onWrong(at);
    },
  };
  return { blocks, requests, wrong };
}
async function read(blocks: Awaited<ReturnType<typeof blocksWith>>["blocks"], offset: number, bytes: number) {
  const pieces: Uint8Array[] = [];
  for await (const piece of verifiedPieces(blocks, { offset, bytes })) pieces.push(piece.slice());
  await blocks.file.close();
  return Buffer.concat(pieces);
}

test.each([
  [0, content.length],
  [1, 1],
  [BLOCK_BYTES - 1, 2],
  [BLOCK_BYTES, BLOCK_BYTES],
  [PIECE - 5, PIECE + 10],
  [content.length - 1, 1],
])("the part from %d of %d bytes is given exactly, and its sums are read once", async (offset, bytes) => {
  const { blocks, requests, wrong } = await blocksWith(right);
  expect((await read(blocks, offset, bytes)).equals(content.subarray(offset, offset + bytes))).toBe(true);
  const first = Math.floor(offset / BLOCK_BYTES);
  expect([requests, wrong]).toEqual([[[first, blocksIn(offset + bytes) - first]], []]);
});

test("a sum that is wrong is judged once: if all of the content is sound, the rest is read as it is", async () => {
  const { blocks, wrong } = await blocksWith(right.map((sum, i) => (i < 3 ? sum : sum + 1n)));
  expect((await read(blocks, 0, content.length)).equals(content)).toBe(true);
  expect(wrong).toEqual([3 * BLOCK_BYTES]);
});

test("no byte of a damaged block is given", async () => {
  const damaged = right.map((sum, i) => (i === 5 ? sum + 1n : sum));
  const { blocks } = await blocksWith(damaged, (at) => {
    throw new Error(`damaged at ${at}`);
  });
  const pieces = verifiedPieces(blocks, { offset: 0, bytes: content.length });
  expect((await pieces.next()).value?.byteLength).toBe(PIECE);
  await expect(pieces.next()).rejects.toThrow(`damaged at ${5 * BLOCK_BYTES}`);
  await blocks.file.close();
});

test("content without sums is given as it is; a stream closes the file with its last byte", async () => {
  const { blocks } = await blocksWith(undefined);
  const stream = verifiedStream(blocks, { offset: 10, bytes: PIECE });
  const given = Buffer.from(await new Response(stream).arrayBuffer());
  expect(given.equals(content.subarray(10, 10 + PIECE))).toBe(true);
  await expect(blocks.file.stat()).rejects.toThrow();
});

test("the first wrong block is named, also the last and shorter one", () => {
  expect(firstWrong(right, content)).toBe(-1);
  const last = right.length - 1;
  expect(
    firstWrong(
      right.map((sum, i) => (i === last ? 0n : sum)),
      content,
    ),
  ).toBe(last);
  expect(firstWrong(right.subarray(1), content.subarray(BLOCK_BYTES))).toBe(-1);
  expect(firstWrong(right, content.subarray(BLOCK_BYTES))).toBe(0);
});
