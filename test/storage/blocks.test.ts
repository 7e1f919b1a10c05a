import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileResponse } from "../../src/http/answer/file_response.ts";
import { BlockSums, firstWrong } from "../../src/platform/storage/block_sums.ts";
import { DamagedError } from "../../src/platform/storage/damage.ts";
import { openLocalStorage } from "../../src/platform/storage/local.ts";

const BLOCK = 1 << 16;
const BYTES = (3 << 20) + 12_345; // more than is hashed before the first byte, and no whole number of blocks
const CONTENT = new Uint8Array(BYTES).map((_, i) => (i * 31 + (i >> 9)) & 255);
const DAMAGED_AT = 2 << 20;

const roots: string[] = [];
afterAll(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

async function open(content = CONTENT) {
  const root = mkdtempSync(join(tmpdir(), "verk-blocks-"));
  roots.push(root);
  const damages: DamagedError[] = [];
  const storage = openLocalStorage(root, { onDamage: (error) => damages.push(error) });
  const { sha256 } = await storage.put("k", content);
  const pathIn = (folder: string) => join(root, folder, sha256.slice(0, 2), sha256.slice(2));
  const alter = (path: string, at: number) =>
    writeFileSync(path, readFileSync(path).with(at, readFileSync(path)[at]! ^ 1));
  const damage = () => alter(pathIn("objects"), DAMAGED_AT);
  const read = async (offset: number, length: number) =>
    new Response((await storage.get("k", { offset, length }))!.stream).bytes();
  const serve = (range?: string) =>
    fileResponse(new Request("http://x/", range === undefined ? {} : { headers: { range } }), {
      name: "k",
      contentType: "text/plain",
      sizeBytes: content.length,
      sha256,
      updatedAt: 0,
      open: (part) => storage.get("k", part),
    });
  return { root, storage, damages, pathIn, alter, damage, read, serve };
}

const faultOf = (work: Promise<unknown>) => work.then(() => "no error").catch((error) => error);

describe("D4 ranges of large content", () => {
  test("are what was put, wherever they begin and end", async () => {
    const { read, serve, damages } = await open();
    for (const [offset, length] of [
      [0, 1],
      [BLOCK - 1, 2],
      [BLOCK, BLOCK],
      [5 * BLOCK + 7, 9 * BLOCK],
      [BYTES - 1, 1],
      [1, BYTES - 1],
      [BYTES - 20_000, 20_000],
    ] as const) {
      const part = CONTENT.subarray(offset, offset + length);
      expect(Buffer.compare(await read(offset, length), part)).toBe(0);
      const answer = await serve(`bytes=${offset}-${offset + length - 1}`);
      expect(answer?.status).toBe(206);
      expect(Buffer.compare(await answer!.bytes(), part)).toBe(0);
    }
    expect(damages).toEqual([]);
  });

  test("a range that touches a damaged block is refused before its first byte, and the content is moved away", async () => {
    const { root, serve, damage, damages, storage } = await open();
    damage();
    expect((await serve(`bytes=0-${BLOCK - 1}`))?.status).toBe(206); // sound blocks are given
    expect(await faultOf(serve(`bytes=${DAMAGED_AT + 9}-${DAMAGED_AT + 10}`))).toBeInstanceOf(DamagedError);
    expect(damages.map(({ why }) => why)).toEqual([expect.stringContaining(`the block at byte ${DAMAGED_AT}`)]);
    expect(readdirSync(join(root, "damaged"))).toHaveLength(1);
    await storage.put("k", CONTENT);
    expect((await serve(`bytes=${DAMAGED_AT}-${DAMAGED_AT + 10}`))?.status).toBe(206);
  });

  test("whole content that the kernel sends is verified first too", async () => {
    const { serve, damage } = await open();
    expect((await serve())?.status).toBe(200);
    damage();
    expect(await faultOf(serve())).toBeInstanceOf(DamagedError);
  });

  test("a stream of a range ends before the damaged block", async () => {
    const { storage, damage } = await open();
    damage();
    const opened = await storage.get("k", { offset: 100, length: BYTES - 100 });
    let seen = 0;
    const reading = (async () => {
      for await (const chunk of opened!.stream) seen += chunk.byteLength;
    })();
    expect(await faultOf(reading)).toBeInstanceOf(DamagedError);
    expect(seen).toBeLessThanOrEqual(DAMAGED_AT - 100);
  });

  test("a range of small content is verified with all of it", async () => {
    const { storage, alter, pathIn } = await open(CONTENT.subarray(0, 5_000));
    expect(existsSync(pathIn("sums"))).toBe(false);
    alter(pathIn("objects"), 4_000);
    expect(await faultOf(storage.get("k", { offset: 0, length: 1 }))).toBeInstanceOf(DamagedError);
  });
});

describe("D4 block sums", () => {
  test.each([
    ["one sum", (sums: Buffer) => sums.with(8 * (DAMAGED_AT / BLOCK), 0).with(8 * (DAMAGED_AT / BLOCK) + 1, 0)],
    ["all sums", (sums: Buffer) => sums.map(() => 0)],
  ])("damage of %s refuses nothing, and the sums are written again", async (_what, change) => {
    const { read, pathIn, damages } = await open();
    const sums = readFileSync(pathIn("sums"));
    writeFileSync(pathIn("sums"), change(sums));
    const part = CONTENT.subarray(DAMAGED_AT, DAMAGED_AT + 10);
    expect(await Promise.all([read(DAMAGED_AT, 10), read(DAMAGED_AT, 10)])).toEqual([part, part]);
    expect(readFileSync(pathIn("sums"))).toEqual(sums);
    writeFileSync(pathIn("sums"), change(sums));
    expect(Buffer.compare(await read(1, BYTES - 1), CONTENT.subarray(1))).toBe(0);
    expect(damages).toEqual([]);
  });

  test.each([
    ["missing", (path: string) => rmSync(path)],
    ["truncated", (path: string) => writeFileSync(path, readFileSync(path).subarray(0, 16))],
  ])("content whose sums are %s is given, and the next night makes them", async (_what, spoil) => {
    const { storage, read, pathIn } = await open();
    const sums = readFileSync(pathIn("sums"));
    spoil(pathIn("sums"));
    expect(await read(DAMAGED_AT, 10)).toEqual(CONTENT.subarray(DAMAGED_AT, DAMAGED_AT + 10));
    expect(await storage.verify!(() => false)).toMatchObject({ objects: 1, damaged: 0 });
    expect(readFileSync(pathIn("sums"))).toEqual(sums);
    expect(await storage.verify!(() => false)).toMatchObject({ objects: 0 });
  });

  test("a sweep removes them with their content", async () => {
    const { root, storage } = await open();
    await storage.sweep(0);
    const filesIn = (folder: string) => readdirSync(join(root, folder), { recursive: true }).length;
    expect(filesIn("sums")).toBe(2); // the folder and the file
    await storage.delete("k");
    await storage.sweep(0);
    expect(filesIn("sums")).toBe(1);
  });

  test("do not depend on the chunks, and tell each block apart", () => {
    const whole = new BlockSums();
    whole.add(CONTENT);
    const expected = whole.finish();
    for (const size of [1_000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]) {
      const sums = new BlockSums();
      for (let at = 0; at < BYTES; at += size) sums.add(CONTENT.subarray(at, at + size));
      expect(sums.finish()).toEqual(expected);
    }
    expect(firstWrong(expected, CONTENT)).toBe(-1);
    for (const at of [0, BLOCK, 7 * BLOCK + 5, BYTES - 1])
      expect(firstWrong(expected, CONTENT.with(at, CONTENT[at]! ^ 128))).toBe(Math.floor(at / BLOCK));
  });
});
