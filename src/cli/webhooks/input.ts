import { UsageError } from "../../lib/errors.ts";
import { openSource } from "../transfer/source.ts";

/** Reads a whole file, or standard input for `-`. */
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

export type Message = { headers: { get(name: string): string | null }; body: Uint8Array };

/** A plain map, because `Headers` throws on invalid values and unverified input may have any value. */
export function headersOf(headers: Iterable<readonly [name: string, value: string]>): Message["headers"] {
  const values = new Map(Array.from(headers, ([name, value]) => [name.toLowerCase(), value]));
  return { get: (name) => values.get(name) ?? null };
}

const HEADER = /^([\w!#$%&'*+.^`|~-]+):[ \t]*(.*?)[ \t]*$/;

/** Reads an HTTP request: header lines, an empty line, the body. Returns undefined if the bytes are something else. */
export function parseMessage(bytes: Uint8Array): Message | undefined {
  const text = Buffer.from(bytes).toString("latin1"); // one character per byte
  const [gap] = /\r?\n\r?\n/.exec(text) ?? [];
  if (gap === undefined) return undefined;
  const end = text.indexOf(gap);
  const headers: [string, string][] = [];
  for (const [i, line] of text.slice(0, end).split(/\r?\n/).entries()) {
    const [, name, value] = HEADER.exec(line) ?? [];
    if (name !== undefined && value !== undefined) headers.push([name, value]);
    else if (i > 0) return undefined; // the first may be the request line
  }
  return { headers: headersOf(headers), body: bytes.subarray(end + gap.length) };
}
