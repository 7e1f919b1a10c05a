/** Weights of experts in Hugging Face's layout, one expert in memory at a time. */
import type { HfTensor, HfType } from "./hf_weights.ts";
import type { MergedTensors } from "./merged_gguf.ts";

type Words = Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** GGUF has `[experts, rows, columns]`, or `[experts, rows]` for a bias. */
export async function* expertChunks(
  { stored, odd, expert, change }: HfTensor,
  { content }: MergedTensors,
  type: HfType,
): AsyncGenerator<Uint8Array> {
  const isBias = stored.dims.length === 2;
  const [rows, columns] = isBias ? [stored.dims[0] ?? 1, 1] : [stored.dims[1] ?? 1, stored.dims[0] ?? 1];
  const experts = stored.dims.at(-1) ?? 1;
  const inFile = isBias ? 1 : rows; // rows of the file that hold one expert
  const range = (of: number) => ({ first: of * inFile, count: inFile });
  if (change === "stack") {
    yield* content(stored, type, range(expert ?? 0));
    return;
  }
  const sources = odd ? [stored, odd] : [stored];
  const out = wordsOf(type, rows * columns * sources.length);
  for (let of = 0; of < experts; of++) {
    for (const [first, source] of sources.entries()) {
      const values = wordsOf(type, rows * columns);
      await fill(values, content(source, type, range(of)));
      transpose(values, out, { rows, columns, first, step: sources.length });
    }
    yield new Uint8Array(out.buffer);
  }
}

const wordsOf = (type: HfType, length: number): Words =>
  type === "F32" ? new Uint32Array(length) : new Uint16Array(length);

async function fill(words: Words, chunks: AsyncIterable<Uint8Array>) {
  const bytes = new Uint8Array(words.buffer);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
}

type Layout = { rows: number; columns: number; first: number; step: number };

/** `[rows, columns]` becomes every `step`th column, from `first` on, of `[columns, rows × step]`. */
function transpose(from: Words, to: Words, { rows, columns, first, step }: Layout) {
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      to[(column * rows + row) * step + first] = from[row * columns + column] as number;
}
