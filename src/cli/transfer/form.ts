import { randomBytes } from "node:crypto";
import type { Chunk } from "./source.ts";

type Form = { fields: Record<string, string>; file: { name: string; size: number | undefined } };

/** A multipart form with one file of any size. It is a stream, so the file is read while it is sent. */
export function formOf({ fields, file }: Form, chunks: AsyncIterable<Chunk>) {
  const boundary = `verk-${randomBytes(16).toString("hex")}`;
  const encoder = new TextEncoder();
  const part = (name: string, more: string) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"${more}\r\n`;
  const texts = Object.entries(fields).map(([name, value]) => `${part(name, "")}\r\n${value}\r\n`);
  const filename = file.name.replaceAll(/[\r\n"\\]/g, "_") || "file";
  const head = `${texts.join("")}${part("file", `; filename="${filename}"`)}content-type: application/x-ndjson\r\n\r\n`;
  const [before, after] = [encoder.encode(head), encoder.encode(`\r\n--${boundary}--\r\n`)];
  const length = file.size === undefined ? undefined : before.byteLength + file.size + after.byteLength;
  return {
    headers: {
      "content-type": `multipart/form-data; boundary=${boundary}`,
      ...(length === undefined ? {} : { "content-length": String(length) }),
    },
    body: streamOf(around(before, chunks, after)),
  };
}

async function* around(before: Chunk, chunks: AsyncIterable<Chunk>, after: Chunk): AsyncGenerator<Chunk> {
  yield before;
  yield* chunks;
  yield after;
}

/** A body for fetch that holds one chunk at a time. */
export function streamOf(chunks: AsyncGenerator<Chunk>): ReadableStream<Chunk> {
  return new ReadableStream<Chunk>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => void chunks.return(undefined),
    },
    { highWaterMark: 0 },
  );
}
