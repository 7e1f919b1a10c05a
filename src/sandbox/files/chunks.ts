/** Reads files by descriptor, piece by piece. */
import { closeSync, read } from "node:fs";
import { promisify } from "node:util";

const CHUNK = 1 << 18;
const readAt = promisify(read) as unknown as (
  fd: number,
  buffer: Uint8Array,
  at: number,
  length: number,
  position: number,
) => Promise<{ bytesRead: number } | number>;

/** Ends early if the file became shorter meanwhile. The descriptor stays open. */
export async function* chunksOf(fd: number, { offset, length }: { offset: number; length: number }) {
  for (let at = 0; at < length; ) {
    const buffer = new Uint8Array(Math.min(CHUNK, length - at));
    const got = await readAt(fd, buffer, 0, buffer.length, offset + at);
    const bytes = typeof got === "number" ? got : got.bytesRead;
    if (bytes === 0) return;
    at += bytes;
    yield buffer.subarray(0, bytes);
  }
}

/** Closes the descriptor at the end, after an error and after a cancel. */
export function streamOf(fd: number, range: { offset: number; length: number }): ReadableStream<Uint8Array> {
  const chunks = chunksOf(fd, range);
  let open = true;
  const close = () => {
    if (open) closeSync(fd);
    open = false;
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await chunks.next();
        if (!next.done) return controller.enqueue(next.value);
        close();
        controller.close();
      } catch (error) {
        close();
        controller.error(error);
      }
    },
    cancel: close,
  });
}
