import { expect, test } from "bun:test";
import { attentionTiles, bucketOf, chunksOf, dependsOnBatch, isWide, planProduct, WIDE, wideFor } from "./plan.ts";

test("a bucket holds its rows; a batch above the largest is a multiple of 128", () => {
  for (let rows = 1; rows <= 600; rows++) expect(bucketOf(rows)).toBeGreaterThanOrEqual(rows);
  expect([1, 3, 33, 256, 257].map(bucketOf)).toEqual([1, 4, 48, 256, 384]);
});

test("chunks are a power of two and hold all keys", () => {
  expect([1, 256, 257, 512, 513, 32_768].map(chunksOf)).toEqual([1, 1, 2, 2, 4, 128]);
});

test("few tokens take the smallest kernel, many take tiles", () => {
  const tile = (format: "bf16" | "q4", rows: number, count: number) => planProduct({ format, rows, count }, 132).tile;
  expect([1, 8, 9, 32, 64].map((count) => tile("bf16", 896, count))).toEqual([
    "deep",
    "deep",
    16,
    "rows_32",
    "rows_64",
  ]);
  expect([1, 8].map((count) => tile("bf16", 9728, count))).toEqual([8, 8]);
  expect([4096, 6144, 28_672].map((rows) => tile("q4", rows, 1))).toEqual([8, "many", "most"]);
  expect([1, 16, 17, 256].map((count) => tile("q4", 896, count))).toEqual([8, 16, "packed_32", "packed_32"]);
  expect(planProduct({ format: "q4", rows: 4096, count: 32 }, 132).parts).toBe(true);
  expect(planProduct({ format: "q4", rows: 28_672, count: 32 }, 132).parts).toBe(false);
  expect(planProduct({ format: "bf16", rows: 896, count: 256 }, 132)).toEqual({ tile: "rows_64", parts: true });
  expect(planProduct({ format: "bf16", rows: 9728, count: 256 }, 132)).toEqual({ tile: "rows_64", parts: false });
  expect(planProduct({ format: "bf16", rows: 151_936, count: 256 }, 132).tile).toBe("tiles_128");
});

test("cuBLAS multiplies in large products of passes of many rows alone", () => {
  const [rows, depth] = [9728, 896];
  expect([1, 8, WIDE.rows - 1].some((count) => isWide({ rows: 151_936, depth, count }, WIDE))).toBe(false);
  expect(isWide({ rows, depth, count: WIDE.rows }, WIDE)).toBe(true);
  expect(isWide({ rows: 64, depth: 64, count: WIDE.rows }, WIDE)).toBe(false);
  expect(isWide({ rows: 64, depth: 64, count: 1 }, { ...WIDE, rows: 1, work: 64 * 64 })).toBe(true);
});

test("cuBLAS reads the prompts of quantized weights alone", () => {
  const prompts = (...formats: ("bf16" | "q4")[]) => wideFor(formats.map((format) => ({ format }))).prompts;
  expect([prompts("bf16", "bf16"), prompts("bf16", "q4")]).toEqual([false, true]);
});

test("a sequence depends on the others where cuBLAS multiplies: in wide steps, and in prompts of quantized weights", () => {
  const slots = [1, 8, 96, 97, 256];
  expect(slots.map((count) => dependsOnBatch(WIDE, count))).toEqual([false, false, false, true, true]);
  expect(dependsOnBatch(wideFor([{ format: "q4" }]), 1)).toBe(true);
  expect(dependsOnBatch(null, 256)).toBe(false);
});

test("tiles of attention join neighbouring rows of one sequence", () => {
  expect([...attentionTiles([4, 4, 4, 4, 4, 7, 4], 7, 16)]).toEqual([0, 2, 2, 2, 4, 1, 5, 1, 6, 1]);
  expect([...attentionTiles([1, 1], 16, 16)]).toEqual([0, 1, 1, 1]);
});
