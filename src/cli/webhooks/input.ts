import { UsageError } from "../../lib/errors.ts";
import { openSource } from "../transfer/source.ts";

/** A whole file, or with `-` standard input. */
export async function readAll(path: string, mostBytes: number): Promise<Uint8Array> {
  const source = await openSource(path);
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of source.chunks()) {
      bytes += chunk.byteLength;
      if (bytes > mostBytes)
        throw new UsageError(`${path === "-" ? "Standard input" : path} is longer than ${mostBytes} bytes`);
      parts.push(chunk);
    }
  } finally {
    await source.close();
  }
  return new Uint8Array(Buffer.concat(parts));
}

export type Message = { headers: Headers; body: Uint8Array };

/** A request as it is on the wire: lines of headers, an empty line, the body. Undefined: it is none. */
export function parseMessage(bytes: Uint8Array): Message | undefined {
  const text = Buffer.from(bytes).toString("latin1"); // one character for each byte
  const [gap] = /\r?\n\r?\n/.exec(text) ?? [];
  if (gap === undefined) return undefined;
  const end = text.indexOf(gap);
  const headers = new Headers();
  for (const [i, line] of text.slice(0, end).split(/\r?\n/).entries()) {
    const [, name, value] = /^([A-Za-z0-9-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) headers.set(name, value);
    else if (i > 0) return undefined; // the first may be the request line
  }
  return { headers, body: bytes.subarray(end + gap.length) };
}
