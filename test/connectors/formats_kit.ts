import { BEGINNING, type RowPosition, type SourceFile } from "../../src/workers/connector/formats/file.ts";
import { rowsOf } from "../../src/workers/connector/formats/rows.ts";
import { SourceError } from "../../src/workers/connector/types.ts";

export const ROW_BYTES = 1_000_000;

/** A file in memory that is read in chunks of `step` bytes. Counts the reads. */
export function memoryFile(name: string, content: string | Uint8Array, step = 64 * 1024) {
  const all = typeof content === "string" ? new TextEncoder().encode(content) : new Uint8Array(content);
  const file = {
    name,
    bytes: all.byteLength,
    streamed: 0,
    closed: 0,
    reads: [] as [from: number, to: number][],
    async *stream(from: number) {
      try {
        for (let at = from; at < all.byteLength; at += step) {
          const chunk = all.slice(at, at + step);
          file.streamed += chunk.byteLength;
          yield chunk;
        }
      } finally {
        file.closed++;
      }
    },
    async read(from: number, to: number) {
      file.reads.push([from, to]);
      return all.slice(from, to);
    },
  };
  return file satisfies SourceFile;
}

type Options = { rowBytes?: number; from?: RowPosition };

export async function readAll(file: SourceFile, { rowBytes = ROW_BYTES, from = BEGINNING }: Options = {}) {
  const lines: string[] = [];
  for await (const piece of rowsOf(file, { rowBytes, from })) lines.push(...piece.lines);
  return lines;
}

/** Returns the SourceError of the work. */
export async function faultOf(work: Promise<unknown>): Promise<SourceError> {
  const error = await work.then(
    () => new Error("it did not fail"),
    (caught: unknown) => caught,
  );
  if (error instanceof SourceError) return error;
  throw error;
}
