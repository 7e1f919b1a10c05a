/** Reads a tensor of a shard some rows at a time and yields the bytes of the GGUF tensor. */
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import type { StoredType } from "../../../lib/checkpoints/mix.ts";
import { decode, encode as encodePlain, repackMxfp4, WEIGHT_BYTES } from "../../../lib/checkpoints/numbers.ts";
import { rotatedRow } from "../../checkpoints/tensors.ts";
import type { Encode } from "./encode.ts";
import { type StoredTensor, shown } from "./folder.ts";

const CHUNK_ELEMENTS = 1 << 20;
const MOST_ELEMENTS = 1 << 25; // rows that must be in memory together, such as one attention head

export type RowOptions = {
  type: StoredType;
  encode: Encode;
  /** Rows of a head, for a tensor whose rows are reordered. */
  headLength?: number;
  addOne?: boolean;
  /** Factors of FP8 weights. */
  scale?: Scale | undefined;
};

export const columnsOf = ({ shape }: { shape: readonly number[] }) => shape.at(-1) ?? 1;
export const elementsOf = ({ shape }: { shape: readonly number[] }) =>
  shape.reduce((product, size) => product * size, 1);

export async function* rowsOf(tensor: StoredTensor, wanted: RowOptions): AsyncGenerator<Uint8Array> {
  const { type, encode, headLength = 1, addOne = false, scale } = wanted;
  const columns = columnsOf(tensor);
  const rows = elementsOf(tensor) / columns;
  const bytesPerRow = columns * (WEIGHT_BYTES[tensor.dtype] ?? 1);
  mustFit(tensor, columns * headLength);
  const atOnce = Math.max(1, Math.floor(CHUNK_ELEMENTS / (columns * headLength))) * headLength;
  const most = Math.min(atOnce, rows);
  const [buffer, floats] = [new Uint8Array(most * bytesPerRow), new Float32Array(most * columns)];
  for (let row = 0; row < rows; row += most) {
    const count = Math.min(most, rows - row);
    const stored = buffer.subarray(0, count * bytesPerRow);
    await tensor.read(stored, tensor.start + row * bytesPerRow);
    const bytes = headLength === 1 ? stored : reordered(stored, bytesPerRow, headLength);
    if (tensor.dtype === type && !addOne) {
      yield bytes;
      continue;
    }
    const values = decode(tensor.dtype, bytes, floats);
    scale?.(values, row, columns);
    if (addOne) for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) + 1;
    yield encode(type, values, columns);
  }
}

/** `bytes` are whole heads. */
function reordered(bytes: Uint8Array, bytesPerRow: number, headLength: number): Uint8Array {
  const out = new Uint8Array(bytes.byteLength);
  for (let row = 0; row * bytesPerRow < bytes.byteLength; row++) {
    const from = rotatedRow(row, headLength) * bytesPerRow;
    out.set(bytes.subarray(from, from + bytesPerRow), row * bytesPerRow);
  }
  return out;
}

function mustFit({ name }: StoredTensor, elements: number) {
  if (elements > MOST_ELEMENTS)
    throw new CheckpointError(`Tensor ${shown(name)} has rows of ${elements} elements, which is too long`);
}

/** Multiplies decoded rows in place; `row` is the first of them. */
export type Scale = (values: Float32Array, row: number, columns: number) => void;

/** One factor for all, one for each row, or one for each block of rows and columns. */
export async function scaleOf(weight: StoredTensor, scale: StoredTensor): Promise<Scale> {
  const fail = () =>
    new CheckpointError(
      `Tensor ${shown(scale.name)} has the shape [${scale.shape.join(", ")}], which does not fit ${shown(weight.name)}`,
    );
  const count = elementsOf(scale);
  if (count > MOST_ELEMENTS || !["F32", "BF16", "F16"].includes(scale.dtype) || weight.shape.length !== 2) throw fail();
  const stored = new Uint8Array(scale.bytes);
  await scale.read(stored, scale.start);
  const factors = decode(scale.dtype, stored, new Float32Array(count));
  const [rows = 0, columns = 0] = weight.shape;
  const down = scale.shape[0] ?? 1;
  const across = count / down;
  if (count !== 1 && scale.shape.length === 1 && down !== rows) throw fail();
  const [blockRows, blockColumns] = [Math.ceil(rows / down), Math.ceil(columns / across)];
  if (Math.ceil(rows / blockRows) !== down || Math.ceil(columns / blockColumns) !== across) throw fail();
  return (values, first, width) => {
    for (let i = 0; i < values.length; i++) {
      const [row, column] = [first + Math.floor(i / width), i % width];
      const factor = factors[Math.floor(row / blockRows) * across + Math.floor(column / blockColumns)] as number;
      values[i] = (values[i] as number) * factor;
    }
  };
}

/**
 * Experts in one tensor `[experts, columns, rows]`: yields each expert transposed, every `step`th row from `first` on.
 * One expert is in memory at a time.
 */
export async function* transposedRows(
  tensor: StoredTensor,
  { type, encode }: Pick<RowOptions, "type" | "encode">,
  first = 0,
  step = 1,
): AsyncGenerator<Uint8Array> {
  const [experts = 0, columns = 0, rows = 0] = tensor.shape;
  mustFit(tensor, columns * rows);
  const stored = new Uint8Array(columns * rows * (WEIGHT_BYTES[tensor.dtype] ?? 1));
  const floats = new Float32Array(columns * rows);
  const out = new Float32Array((columns * rows) / step);
  for (let expert = 0; expert < experts; expert++) {
    await tensor.read(stored, tensor.start + expert * stored.byteLength);
    const values = decode(tensor.dtype, stored, floats);
    let at = 0;
    for (let row = first; row < rows; row += step)
      for (let column = 0; column < columns; column++) out[at++] = values[column * rows + row] as number;
    yield encode(type, out, columns);
  }
}

/** Every `step`th value of each expert's bias, from `first` on. */
export async function* strided(tensor: StoredTensor, first: number, step: number): AsyncGenerator<Uint8Array> {
  mustFit(tensor, elementsOf(tensor));
  const stored = new Uint8Array(tensor.bytes);
  await tensor.read(stored, tensor.start);
  const values = decode(tensor.dtype, stored, new Float32Array(elementsOf(tensor)));
  yield encodePlain(
    "F32",
    values.filter((_, i) => i % step === first),
  ); // the number of columns is a multiple of `step`
}

const MXFP4_BYTES = 17;

/** MXFP4 experts `[experts, rows, blocks, 16]` with scales `[experts, rows, blocks]`. */
export async function* mxfp4Rows(
  blocks: StoredTensor,
  scales: StoredTensor,
  first = 0,
  step = 1,
): AsyncGenerator<Uint8Array> {
  const [experts = 0, rows = 0, perRow = 0] = blocks.shape;
  mustFit(blocks, rows * perRow * 16);
  const [stored, factors] = [new Uint8Array(rows * perRow * 16), new Uint8Array(rows * perRow)];
  const out = new Uint8Array((rows / step) * perRow * MXFP4_BYTES);
  for (let expert = 0; expert < experts; expert++) {
    await blocks.read(stored, blocks.start + expert * stored.byteLength);
    await scales.read(factors, scales.start + expert * factors.byteLength);
    let at = 0;
    for (let row = first; row < rows; row += step)
      for (let block = row * perRow; block < (row + 1) * perRow; block++, at += MXFP4_BYTES)
        repackMxfp4(stored.subarray(block * 16, (block + 1) * 16), factors[block] as number, out, at);
    yield out;
  }
}
