import { describe, expect, test } from "bun:test";
import {
  carriesSums,
  FORMAT,
  type Format,
  IS_PACKED,
  MODE,
  PACKED,
  PACKED_ROWS,
  productGrid,
  productName,
  productShared,
  productThreads,
  READY_SUM_BYTES,
  readyBlocks,
  slicesOf,
  TILES,
  type Tile,
} from "../../src/native/cuda/decode/kernels.ts";
import { NONE } from "../../src/workers/decoder/adapters/added.ts";
import {
  asBf16,
  distance,
  fromBf16s,
  gaussians,
  type Memory,
  openMemory,
  randomOf,
  roundedToBf16,
} from "./decode_kit.ts";
import { canCompute, openTestDevice } from "./emulation/choice.ts";
import { type Quantised, quantise } from "./quantised.ts";

type Case = { format: Format; tile: Tile; rows: number; depth: number; count: number; mode: keyof typeof MODE };

/** Plain product of decoded weights: [token][row]. */
function plain(w: Float32Array, x: Float32Array, rows: number, depth: number, count: number): Float32Array {
  const out = new Float32Array(count * rows);
  for (let token = 0; token < count; token++)
    for (let row = 0; row < rows; row++) {
      let sum = 0;
      for (let k = 0; k < depth; k++) sum += w[row * depth + k]! * x[token * depth + k]!;
      out[token * rows + row] = sum;
    }
  return out;
}

const silu = (x: number) => x / (1 + Math.exp(-x));

describe.skipIf(!canCompute)("products of decoding", () => {
  const device = openTestDevice();

  /** Weights as products take them. */
  function put(memory: Memory, { format, depth }: Case, file: Uint8Array, rows: number): number {
    const from = memory.put(file);
    if (format === "bf16") return from;
    const { numbers, tile } = PACKED[format];
    const tiles = Math.ceil(rows / PACKED_ROWS);
    const to = memory.room(tiles * (depth / numbers) * tile);
    const grid = [tiles, Math.ceil(depth / numbers / 2), 1] as const;
    device.launch("pack_tiles", { grid, threads: 64 }, [from, to, FORMAT[format], depth, rows, 0]);
    return to;
  }

  function run(of: Case, weights: Quantised, x: Float32Array, split = [of.rows]) {
    const memory = openMemory(device);
    const { rows, depth, count, mode } = of;
    const { tokens } = TILES[of.tile];
    const room = Math.ceil(count / tokens) * tokens;
    const padded = new Uint16Array(room * depth).fill(0x7fc0); // NaN: rows past the last must not matter
    padded.set(asBf16(x));
    const gated = mode === "gated";
    const starts = [0, split[0]!, split[0]! + (split[1] ?? 0)];
    const firstRows = gated ? [0, rows / 2] : starts;
    const parts = firstRows.map((first) =>
      first < rows
        ? put(memory, of, weights.bytes.slice(first * weights.rowBytes), gated ? rows / 2 : rows - first)
        : 0,
    );
    const slices = slicesOf(depth);
    const out = gated ? rows / 2 : rows;
    const stride = out + 8;
    const bytes = mode === "logits" ? 4 : mode === "parts" ? 4 * slices : 2;
    const to = memory.room(count * stride * bytes);
    const grid = productGrid({ ...of, slices, parts: mode === "parts" });
    const at = memory.put(padded);
    const ready = [
      ...[memory.room(room * depth * 2), memory.room(room * readyBlocks(depth) * READY_SUM_BYTES)],
      ...[memory.room(room * readyBlocks(depth) * 4), room, 0],
    ];
    if (of.format !== "bf16")
      device.launch("ready_rows", { grid: [readyBlocks(depth), count, 1], threads: 32 }, [at, depth, depth, ...ready]);
    const how = { grid, threads: productThreads({ ...of, slices }), shared: productShared({ ...of, slices }) };
    device.launch(productName(of), how, [
      ...[parts[0]!, parts[1] ?? 0, parts[2] ?? 0, at, to],
      ...[starts[1]!, starts[2] || rows, rows, depth, depth],
      ...[count, depth, stride, MODE[mode], slices, count * stride, 0],
      ...(of.format === "bf16" ? [] : ready),
      ...(carriesSums(of) ? NONE.values : []),
    ]);
    const read = (raw: ArrayLike<number>) =>
      Float32Array.from({ length: count * out }, (_, i) => raw[Math.floor(i / out) * stride + (i % out)]!);
    let result: Float32Array;
    if (mode === "parts") {
      const all = memory.floats(to, slices * count * stride);
      result = read(all.subarray(0, count * stride));
      for (let s = 1; s < slices; s++) {
        const more = read(all.subarray(s * count * stride, (s + 1) * count * stride));
        for (let i = 0; i < result.length; i++) result[i] = Math.fround(result[i]! + more[i]!);
      }
    } else
      result = read(
        mode === "logits" ? memory.floats(to, count * stride) : fromBf16s(memory.halves(to, count * stride)),
      );
    memory.close();
    return result;
  }

  const CASES: Case[] = [
    { format: "bf16", tile: 8, rows: 40, depth: 72, count: 1, mode: "logits" },
    { format: "bf16", tile: 8, rows: 48, depth: 264, count: 7, mode: "whole" },
    { format: "bf16", tile: "deep", rows: 48, depth: 2376, count: 7, mode: "whole" },
    { format: "bf16", tile: 16, rows: 32, depth: 2112, count: 13, mode: "logits" },
    { format: "bf16", tile: 32, rows: 64, depth: 128, count: 32, mode: "gated" },
    { format: "bf16", tile: 64, rows: 72, depth: 200, count: 61, mode: "logits" },
    { format: "bf16", tile: "rows_32", rows: 136, depth: 264, count: 30, mode: "logits" },
    { format: "bf16", tile: "rows_32", rows: 64, depth: 2112, count: 17, mode: "parts" },
    { format: "bf16", tile: "tiles_64", rows: 136, depth: 264, count: 70, mode: "logits" },
    { format: "bf16", tile: "tiles_64", rows: 64, depth: 2112, count: 64, mode: "parts" },
    { format: "bf16", tile: "tiles_128", rows: 272, depth: 72, count: 130, mode: "gated" },
    { format: "q8", tile: 8, rows: 32, depth: 320, count: 3, mode: "logits" },
    { format: "q8", tile: "packed_32", rows: 40, depth: 64, count: 80, mode: "whole" },
    { format: "q8", tile: "packed_32", rows: 64, depth: 896, count: 30, mode: "parts" },
    { format: "q4", tile: 8, rows: 24, depth: 2304, count: 1, mode: "logits" },
    { format: "q4", tile: 16, rows: 32, depth: 768, count: 9, mode: "logits" },
    { format: "q4", tile: "packed_32", rows: 64, depth: 2560, count: 20, mode: "parts" },
    { format: "q4", tile: 8, rows: 48, depth: 256, count: 5, mode: "gated" },
    { format: "q4", tile: "packed_32", rows: 48, depth: 256, count: 20, mode: "gated" },
    { format: "q6", tile: 8, rows: 32, depth: 512, count: 5, mode: "logits" },
    { format: "q6", tile: "packed_32", rows: 80, depth: 768, count: 66, mode: "logits" },
  ];
  test.each(CASES)("$format $tile: $rows × $depth for $count tokens, $mode", (of) => {
    const random = randomOf(of.rows, of.depth, of.count);
    const weights = quantise(of.format, gaussians(of.rows * of.depth, random, 0.1), of.depth);
    const x = roundedToBf16(gaussians(of.count * of.depth, random));
    let want = plain(
      of.format === "bf16" ? roundedToBf16(weights.values) : weights.values,
      x,
      of.rows,
      of.depth,
      of.count,
    );
    if (of.mode === "gated") {
      const half = of.rows / 2;
      const all = roundedToBf16(want);
      want = Float32Array.from({ length: of.count * half }, (_, i) => {
        const at = Math.floor(i / half) * of.rows + (i % half);
        return silu(all[at]!) * all[at + half]!;
      });
    }
    const got = run(of, weights, x);
    expect(distance(got, want)).toBeLessThan(of.mode === "logits" || of.mode === "parts" ? 2e-6 : 3e-3);
  });

  test.each(["q8", "q4", "q6"] as const)("packed rows of %s are decoded as those of a file", (format) => {
    const [rows, depth] = [13, 768];
    const weights = quantise(format, gaussians(rows * depth, randomOf(21), 0.1), depth);
    const memory = openMemory(device);
    const at = put(memory, { format, tile: 8, rows, depth, count: 1, mode: "whole" }, weights.bytes, rows);
    const to = memory.room((rows - 8) * depth * 2);
    const unpacking = [at, to, FORMAT[format], depth, 8, rows - 8];
    device.launch("unpack_tiles", { grid: [1, 6, 1], threads: 64 }, unpacking);
    const unsigned = (values: Float32Array) => values.map((value) => value + 0); // -0 becomes 0
    const got = fromBf16s(memory.halves(to, (rows - 8) * depth));
    expect(unsigned(got)).toEqual(unsigned(roundedToBf16(weights.values.slice(8 * depth))));
    const [tokens, table] = [memory.put(Int32Array.from([11, 3])), memory.room(2 * depth * 4)];
    const how = { grid: [2, 1, 1], threads: 96 } as const;
    device.launch("embed_rows", how, [at, FORMAT[format] + IS_PACKED, tokens, table, depth, 1]);
    const rowOf = (row: number) => roundedToBf16(weights.values.slice(row * depth, (row + 1) * depth));
    expect(unsigned(memory.floats(table, 2 * depth))).toEqual(unsigned(Float32Array.from([...rowOf(11), ...rowOf(3)])));
    memory.close();
  });

  test("rows that are made ready keep what BF16 holds, whatever their size", () => {
    const [rows, depth] = [3, 320];
    const values = roundedToBf16(
      gaussians(rows * depth, randomOf(31)).map((x, i) => x * [1, 1e30, 1e-20][Math.floor(i / depth)]!),
    );
    const memory = openMemory(device);
    const blocks = readyBlocks(depth);
    const [halves, sums, scales] = [rows * depth * 2, rows * blocks * READY_SUM_BYTES, rows * blocks * 4].map(
      memory.room,
    );
    const at = memory.put(asBf16(values));
    device.launch("ready_rows", { grid: [1, rows, 1], threads: 64 }, [
      at,
      depth,
      depth,
      halves!,
      sums!,
      scales!,
      rows,
      0,
    ]);
    const numbers = new Float16Array(memory.halves(halves!, rows * depth).buffer);
    const by = memory.floats(scales!, rows * blocks);
    const got = Float32Array.from(values, (_, i) => {
      const [row, k] = [Math.floor(i / depth), i % depth];
      return numbers[i]! * by[Math.floor(k / 256) * rows + row]!;
    });
    expect(got).toEqual(values);
    memory.close();
  });

  test("weights in three parts are one product", () => {
    const random = randomOf(5);
    const weights = quantise("bf16", gaussians(256 * 64, random), 64);
    const x = roundedToBf16(gaussians(3 * 64, random));
    const of: Case = { format: "bf16", tile: 8, rows: 256, depth: 64, count: 3, mode: "logits" };
    expect(run(of, weights, x, [128, 64])).toEqual(run(of, weights, x));
  });

  test("every kernel gives a token the same bits, alone and among others", () => {
    const random = randomOf(9);
    const [rows, depth] = [128, 328];
    const weights = quantise("bf16", gaussians(rows * depth, random), depth);
    const x = roundedToBf16(gaussians(70 * depth, random));
    const of = { format: "bf16", rows, depth, mode: "logits" } as const;
    const alone = run({ ...of, tile: 8, count: 1 }, weights, x.slice(0, depth));
    for (const [tile, count] of [
      [16, 9],
      [32, 30],
      [64, 64],
      ["rows_32", 30],
      ["rows_64", 60],
      ["tiles_64", 70],
      ["tiles_128", 70],
    ] as const)
      expect(run({ ...of, tile, count }, weights, x.slice(0, count * depth)).slice(0, rows)).toEqual(
        alone as Float32Array<ArrayBuffer>,
      );
    const parts = run({ ...of, mode: "parts", tile: "tiles_64", count: 70 }, weights, x);
    expect(parts.slice(0, rows)).toEqual(alone as Float32Array<ArrayBuffer>);
  });

  test.each([
    { format: "q8", depth: 896 },
    { format: "q4", depth: 2304 },
    { format: "q6", depth: 1280 },
  ] as const)("$format: a token has the same bits alone, among others and in parts", ({ format, depth }) => {
    const random = randomOf(11);
    const rows = 48;
    const weights = quantise(format, gaussians(rows * depth, random), depth);
    const x = roundedToBf16(gaussians(70 * depth, random));
    const of = { format, rows, depth, mode: "logits" } as const;
    const alone = run({ ...of, tile: 8, count: 1 }, weights, x.slice(0, depth)) as Float32Array<ArrayBuffer>;
    for (const [tile, count, mode] of [
      [8, 8, "logits"],
      ["many", 7, "logits"],
      ["most", 3, "logits"],
      [16, 13, "logits"],
      ["packed_32", 30, "logits"],
      ["packed_32", 70, "logits"],
      ["packed_32", 70, "parts"],
    ] as const)
      expect(run({ ...of, tile, count, mode }, weights, x.slice(0, count * depth)).slice(0, rows)).toEqual(alone);
  });
});
