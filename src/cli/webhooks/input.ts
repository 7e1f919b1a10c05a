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

export type Message = { headers: { get(name: string): string | null }; body: Uint8Array };

/** As they are: `Headers` throws at a value that is none, and what is to be checked may be anything. */
export function headersOf(given: Iterable<readonly [name: string, value: string]>): Message["headers"] {
  const known = new Map(Array.from(given, ([name, value]) => [name.toLowerCase(), value]));
  return { get: (name) => known.get(name) ?? null };
}

const HEADER = /^([\w!#$%&'*+.^`|~-]+):[ \t]*(.*?)[ \t]*$/;

/** A request as it is on the wire: lines of headers, an empty line, the body. Undefined: it is none. */
export function parseMessage(bytes: Uint8Array): Message | undefined {
  const text = Buffer.from(bytes).toString("latin1"); // one character for each byte
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
