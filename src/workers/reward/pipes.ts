/** Standard input and output, blocking: this process has nothing else to wait for, and no thread that could be fooled. */
import { readSync, writeSync } from "node:fs";
import { encodeFrame } from "../../lib/rewards/frames.ts";

const STDIN = 0;
const STDOUT = 1;
const HEADER = 4;

/** The next message, or undefined when the parent has closed its end. */
export function receive<T>(): T | undefined {
  const header = readExactly(HEADER);
  if (!header) return undefined;
  const body = readExactly(header.readUInt32LE(0));
  return body && (JSON.parse(body.toString("utf8")) as T);
}

function readExactly(bytes: number): Buffer | undefined {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let at = 0; at < bytes; ) {
    const read = readSync(STDIN, buffer, at, bytes - at, null);
    if (read === 0) return undefined;
    at += read;
  }
  return buffer;
}

export function send(message: unknown) {
  const frame = encodeFrame(message);
  for (let at = 0; at < frame.byteLength; ) at += writeSync(STDOUT, frame, at, frame.byteLength - at);
}
