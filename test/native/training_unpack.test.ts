import { describe, expect, test } from "bun:test";
import { PACKED_TYPES, TENSOR_TYPES } from "../../src/lib/gguf/types.ts";
import { NF4_NUMBERS, nearestNf4 } from "../ml/engine/plain_packed.ts";
import { asBf16, fromBf16s, gaussians, openMemory, randomOf, roundedToBf16 } from "./decode_kit.ts";
import { canEmulate, emulateTraining } from "./emulation/device.ts";
import { ggmlDecoded } from "./ggml_rows.ts";

const typeOf = (name: string) => [...TENSOR_TYPES.values()].find((type) => type.name === name)!;

/** Blocks of any bits, but with factors that are finite: their places are those of F16 numbers in a block. */
function blocksOf(name: string, count: number): Uint8Array<ArrayBuffer> {
  const { bytes: size } = typeOf(name);
  const random = randomOf(size, count);
  const bytes = Uint8Array.from({ length: size * count }, () => Math.floor(random() * 256));
  const factors = name === "Q6_K" ? [208] : name === "Q4_K" || name === "Q5_K" ? [0, 2] : [0];
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < count; block++)
    for (const at of factors) view.setUint16(block * size + at, view.getUint16(block * size + at, true) & 0xbbff, true);
  return bytes;
}

describe.skipIf(!canEmulate)("the kernels decode what ggml decodes, bit for bit", () => {
  const device = emulateTraining();
  const [columns, rows, stride] = [768, 5, 800];

  test.each(PACKED_TYPES.map((name, packing) => [name, packing] as const))("%s", (name, packing) => {
    const memory = openMemory(device);
    const bytes = blocksOf(name, (columns * rows) / typeOf(name).block);
    const expected = asBf16(ggmlDecoded(name, bytes));
    const to = memory.room(rows * stride * 2);
    const from = memory.put(bytes);
    device.launch("unpack_rows", { grid: [rows, 1, 1], threads: 96 }, [from, to, columns, stride, packing]);
    const found = memory.halves(to, rows * stride);
    for (let row = 0; row < rows; row++)
      expect(found.slice(row * stride, row * stride + columns)).toEqual(
        expected.slice(row * columns, (row + 1) * columns),
      );

    const ids = Int32Array.of(4, 0, 4, 2);
    const x = memory.room(ids.length * columns * 4);
    device.launch("embed_packed", { grid: [ids.length, 1, 1], threads: 64 }, [
      ...[from, memory.put(ids), x, columns, packing],
    ]);
    const embedded = memory.floats(x, ids.length * columns);
    for (const [i, id] of ids.entries())
      expect(embedded.slice(i * columns, (i + 1) * columns)).toEqual(
        fromBf16s(expected.slice(id * columns, (id + 1) * columns)) as Float32Array<ArrayBuffer>,
      );
    memory.close();
  });

  test("NF4: the nearest of sixteen shares of the largest number in 64", () => {
    const memory = openMemory(device);
    const [columns, rows] = [256, 3];
    const values = roundedToBf16(gaussians(columns * rows, randomOf(8), 0.02).fill(0, 64, 128));
    const blocks = values.length / 64;
    const packed = memory.room(blocks * 36);
    device.launch("pack_nf4", { grid: [1, 1, 1], threads: 32 }, [memory.put(asBf16(values)), packed, blocks]);
    const expected = values.map((value, i) => {
      const block = values.subarray(i - (i % 64), i - (i % 64) + 64);
      const most = block.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      const share = most === 0 ? 0 : value / most;
      return most * NF4_NUMBERS[nearestNf4(share)]!;
    });
    const to = memory.room(values.length * 2);
    const how = { grid: [rows, 1, 1], threads: 32 } as const;
    device.launch("unpack_rows", how, [packed, to, columns, columns, PACKED_TYPES.length]);
    expect(fromBf16s(memory.halves(to, values.length))).toEqual(roundedToBf16(expected) as Float32Array<ArrayBuffer>);
    memory.close();
  });

  test("sums are rounded to BF16", () => {
    const memory = openMemory(device);
    const values = Float32Array.from({ length: 3 * 64 }, (_, i) => Math.sin(i) * 10 ** ((i % 9) - 4));
    const to = memory.room(values.length * 2);
    device.launch("round_rows", { grid: [3, 1, 1], threads: 32 }, [memory.put(values), to, 64]);
    expect(memory.halves(to, values.length)).toEqual(asBf16(values) as Uint16Array<ArrayBuffer>);
    memory.close();
  });
});
