/** Reads rows from several processes of rows.py, one batch of each in turn. */
import { join } from "node:path";

const LEARN = 1 << 15;
const PAD = 1 << 14;

export type Batch = {
  ids: (row: number) => Int32Array;
  /** Weight of every token except the first: 1 for the model's text, less for text of others, 0 for padding. */
  weights: (row: number, ofOthers: number) => Float32Array;
};
export type BatchOptions = { makers: number; seed: number; rows: number; length: number };
export type Batches = { next: () => Promise<Batch>; close: () => void };

export function openBatches({ makers, seed, rows, length }: BatchOptions): Batches {
  const script = join(import.meta.dir, "rows.py");
  const children = Array.from({ length: makers }, (_, part) =>
    Bun.spawn(["python3", script, "--seed", `${seed}`, "--part", `${part}`, "--length", `${length}`], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    }),
  );
  const bytes = rows * length * 2;
  const lines = children.map(({ stdout }) => inPieces(stdout, bytes));
  const waiting = lines.map((line) => line.next()); // each is always one batch ahead
  let turn = 0;
  return {
    async next() {
      const at = turn++ % makers;
      const { value } = (await waiting[at]) ?? {};
      if (!value) throw new Error(`Process ${at} of rows.py ended`);
      const line = lines[at];
      if (line) waiting[at] = line.next();
      return batchOf(value, length);
    },
    close() {
      for (const child of children) child.kill();
    },
  };
}

async function* inPieces(stream: ReadableStream<Uint8Array>, size: number): AsyncGenerator<Uint16Array, undefined> {
  let piece = new Uint8Array(size);
  let filled = 0;
  for await (const chunk of stream)
    for (let at = 0; at < chunk.length; ) {
      const taken = Math.min(size - filled, chunk.length - at);
      piece.set(chunk.subarray(at, at + taken), filled);
      filled += taken;
      at += taken;
      if (filled < size) continue;
      yield new Uint16Array(piece.buffer);
      piece = new Uint8Array(size);
      filled = 0;
    }
}

function batchOf(flagged: Uint16Array, length: number): Batch {
  const rowOf = (row: number) => flagged.subarray(row * length, (row + 1) * length);
  return {
    ids: (row) => Int32Array.from(rowOf(row), (each) => (each & PAD ? 0 : each & (PAD - 1))),
    weights: (row, ofOthers) =>
      Float32Array.from(rowOf(row).subarray(1), (each) => (each & PAD ? 0 : each & LEARN ? 1 : ofOthers)),
  };
}
