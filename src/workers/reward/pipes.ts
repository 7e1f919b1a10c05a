/**
 * Standard input and output, synchronously: this process has nothing else to wait for, and no thread that could be
 * misled. Trap: the runtime may have made them non-blocking, so this code waits for a full or an empty pipe itself.
 */
import { readSync, writeSync } from "node:fs";
import { encodeFrame } from "../../lib/rewards/frames.ts";
import { parseWithExact } from "../../lib/rows/json.ts";
import { addressOf, NR, syscall } from "../../native/syscalls.ts";

const STDIN = 0;
const STDOUT = 1;
const HEADER = 4;
const POLLIN = 1;
const POLLOUT = 4;
const FOREVER = 0; // no timeout is given

/** Returns the next message, or undefined if the parent has closed its end. `exactly`: see parseWithExact. */
export function receive<T>(exactly: string): T | undefined {
  const header = readExactly(HEADER);
  if (!header) return undefined;
  const body = readExactly(header.readUInt32LE(0));
  return body && (parseWithExact(body.toString("utf8"), exactly) as T);
}

function readExactly(bytes: number): Buffer | undefined {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let at = 0; at < bytes; ) {
    const read = waiting(STDIN, POLLIN, () => readSync(STDIN, buffer, at, bytes - at, null));
    if (read === 0) return undefined;
    at += read;
  }
  return buffer;
}

export function send(message: unknown) {
  const frame = encodeFrame(message);
  for (let at = 0; at < frame.byteLength; ) {
    at += waiting(STDOUT, POLLOUT, () => writeSync(STDOUT, frame, at, frame.byteLength - at));
  }
}

function waiting(fd: number, events: number, act: () => number): number {
  for (;;) {
    try {
      return act();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
    const pollfd = new Int32Array([fd, events]); // struct pollfd: the last two bytes return the events
    syscall(NR.ppoll, addressOf(pollfd), 1, FOREVER, 0, 0);
  }
}
