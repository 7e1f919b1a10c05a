/**
 * The state of one sequence as the embedded version of libllama writes it, cut into blocks and put together again. Numbers
 * are little-endian. A state has a section for each cache of the model:
 *
 *   streams: u32, then for each stream: cells: u32; if there are cells:
 *     for each cell: position i32, sequences u32 (1), sequence i32
 *     values are transposed: u32 (0), layers: u32
 *     for each layer: type i32, bytes of a row u64, rows of keys; then the same of values
 *
 * Anything else is refused: the prompts of such a model stay in memory only.
 */
import { BLOCK } from "./block.ts";

const HEAD_BYTES = 8; // a magic number and the sequence
const CELL_BYTES = 12;
const PLANE_BYTES = 12;
const MOST_PLANES = 4_096;

/** Rows of keys or of values of one layer. `at`: where they lie in the state. */
type Plane = { type: number; rowBytes: number; at: number };
/** `order[position]`: the cell with this position. */
type Section = { planes: Plane[]; order: Int32Array };
export type State = { bytes: Uint8Array; length: number; magic: number; sections: Section[] };

/** The shape of a block: type and bytes of a row of each plane of each section. */
type Shape = readonly (readonly (readonly [type: number, rowBytes: number])[])[];

/** Null: the state has another form, or holds other positions than 0 to `length`. */
export function readState(bytes: Uint8Array, length: number): State | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const sections: Section[] = [];
    let at = HEAD_BYTES;
    while (at < bytes.length) {
      const read = readSection(view, at, length);
      if (!read) return null;
      sections.push(read.section);
      at = read.end;
    }
    if (at !== bytes.length || sections.length === 0) return null;
    return { bytes, length, magic: view.getUint32(0, true), sections };
  } catch (error) {
    if (error instanceof RangeError) return null; // it ends before
    throw error;
  }
}

function readSection(view: DataView, from: number, length: number): { section: Section; end: number } | null {
  const u32 = (at: number) => view.getUint32(at, true);
  let at = from;
  const streams = u32(at);
  at += 4;
  let section: Section | null = null;
  for (let stream = 0; stream < streams; stream++) {
    const cells = u32(at);
    at += 4;
    if (cells === 0) continue;
    if (section || cells !== length) return null;
    const order = new Int32Array(length).fill(-1);
    for (let cell = 0; cell < cells; cell++, at += CELL_BYTES) {
      const position = view.getInt32(at, true);
      if (position < 0 || position >= length || order[position] !== -1 || u32(at + 4) !== 1) return null;
      order[position] = cell;
    }
    if (u32(at) !== 0) return null;
    const layers = u32(at + 4);
    at += 8;
    if (layers < 1 || 2 * layers > MOST_PLANES) return null;
    const planes: Plane[] = [];
    for (let i = 0; i < 2 * layers; i++) {
      const rowBytes = Number(view.getBigUint64(at + 4, true));
      planes.push({ type: view.getInt32(at, true), rowBytes, at: at + PLANE_BYTES });
      at += PLANE_BYTES + rowBytes * cells;
      if (at > view.byteLength) return null;
    }
    section = { planes, order };
  }
  return section && { section, end: at };
}

/** The content of a block: its shape, then its rows, plane by plane. */
export function cutBlock({ bytes, sections }: State, index: number): Uint8Array {
  const shape: Shape = sections.map(({ planes }) => planes.map(({ type, rowBytes }) => [type, rowBytes] as const));
  const head = Buffer.from(JSON.stringify(shape));
  const block = new Uint8Array(4 + head.length + rowsBytes(shape));
  new DataView(block.buffer).setUint32(0, head.length, true);
  block.set(head, 4);
  let to = 4 + head.length;
  for (const { planes, order } of sections)
    for (const { rowBytes, at } of planes)
      for (let row = 0; row < BLOCK; row++, to += rowBytes) {
        const from = at + order[index * BLOCK + row]! * rowBytes;
        block.set(bytes.subarray(from, from + rowBytes), to);
      }
  return block;
}

const rowsBytes = (shape: Shape) => BLOCK * shape.flat().reduce((sum, [, rowBytes]) => sum + rowBytes, 0);

/** Bytes of the state of so many tokens. */
export const stateBytes = (shape: Shape, streams: number, length: number): number =>
  shape.reduce(
    (sum, planes) =>
      sum +
      4 +
      4 * streams +
      CELL_BYTES * length +
      8 +
      planes.reduce((all, [, rowBytes]) => all + PLANE_BYTES + rowBytes * length, 0),
    HEAD_BYTES,
  );

/** Shape and rows of a block's content. Null: it is not whole. */
export function partsOf(content: Uint8Array): { shape: Shape; head: string; rows: Uint8Array } | null {
  if (content.length < 4) return null;
  const length = new DataView(content.buffer, content.byteOffset).getUint32(0, true);
  if (length > content.length - 4) return null;
  const head = new TextDecoder().decode(content.subarray(4, 4 + length));
  const shape = shapeOf(head);
  const rows = content.subarray(4 + length);
  return shape && rows.length === rowsBytes(shape) ? { shape, head, rows } : null;
}

function shapeOf(text: string): Shape | null {
  let shape: unknown;
  try {
    shape = JSON.parse(text);
  } catch {
    return null;
  }
  const isCount = (value: unknown, most: number) => Number.isInteger(value) && Math.abs(value as number) <= most;
  const isPlane = (plane: unknown) =>
    Array.isArray(plane) &&
    plane.length === 2 &&
    isCount(plane[0], 1_000) &&
    isCount(plane[1], 2 ** 24) &&
    plane[1] >= 0;
  const isSection = (planes: unknown) =>
    Array.isArray(planes) && planes.length > 0 && planes.length <= MOST_PLANES && planes.length % 2 === 0;
  if (!Array.isArray(shape) || shape.length < 1 || shape.length > 4) return null;
  return shape.every((planes) => isSection(planes) && planes.every(isPlane)) ? (shape as Shape) : null;
}

/** The target of a state: the magic number of the library, the sequence, which is the stream, and the number of streams. */
export type Target = { magic: number; sequence: number; streams: number };

/** Puts blocks together to the state of a sequence. `add` throws if a block has another shape. */
export class StateWriter {
  readonly bytes: Uint8Array;
  readonly #shape: Shape;
  readonly #at: number[] = []; // of the rows of each plane

  constructor(shape: Shape, blocks: number, { magic, sequence, streams }: Target) {
    const length = blocks * BLOCK;
    this.#shape = shape;
    this.bytes = new Uint8Array(stateBytes(shape, streams, length));
    const view = new DataView(this.bytes.buffer);
    let at = 0;
    const u32 = (value: number) => {
      view.setUint32(at, value, true);
      at += 4;
    };
    u32(magic);
    u32(sequence);
    for (const planes of shape) {
      u32(streams);
      for (let stream = 0; stream < streams; stream++) {
        const isOwn = stream === (streams === 1 ? 0 : sequence);
        u32(isOwn ? length : 0);
        if (!isOwn) continue;
        for (let position = 0; position < length; position++) for (const word of [position, 1, sequence]) u32(word);
        u32(0);
        u32(planes.length / 2);
        for (const [type, rowBytes] of planes) {
          view.setInt32(at, type, true);
          view.setBigUint64(at + 4, BigInt(rowBytes), true);
          at += PLANE_BYTES;
          this.#at.push(at);
          at += rowBytes * length;
        }
      }
    }
  }

  add(index: number, rows: Uint8Array) {
    let from = 0;
    let plane = 0;
    for (const planes of this.#shape)
      for (const [, rowBytes] of planes) {
        const size = BLOCK * rowBytes;
        this.bytes.set(rows.subarray(from, from + size), this.#at[plane++]! + index * size);
        from += size;
      }
  }
}
