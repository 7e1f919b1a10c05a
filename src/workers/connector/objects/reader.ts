/**
 * Reads the bytes of an object over unreliable connections: continues the same version after the last byte received.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { connectionFailure } from "../../../lib/net/connection_failure.ts";
import { DialError } from "../../../platform/network/address.ts";
import type { SourceFile } from "../formats/file.ts";
import { SourceError } from "../types.ts";
import { BusyError, type OpenObject, type Span, type StoredObject } from "./store.ts";

const TRIES = 5;
const FIRST_PAUSE_MS = 100; // doubles with every retry

export type Reader = (object: StoredObject, name: string) => SourceFile;

export function createReader(open: OpenObject, signal: AbortSignal): Reader {
  let begun = false; // a source that never answered is reported at once

  async function* spans(object: StoredObject, name: string, span: Span): AsyncGenerator<Uint8Array> {
    let at = span.from;
    for (let failures = 0; at < span.to; ) {
      try {
        const { stream } = await open(object, { from: at, to: span.to }, signal);
        begun = true;
        for await (const chunk of stream) {
          if (chunk.byteLength > 0) failures = 0;
          const part = chunk.subarray(0, span.to - at); // a store may ignore the end of the range
          at += part.byteLength;
          yield part;
          if (at >= span.to) return;
        }
        throw new DialError("connection", `the connection ended at byte ${at} of ${span.to}`);
      } catch (error) {
        signal.throwIfAborted();
        if (!isPassing(error, begun)) throw error;
        if (++failures >= TRIES) throw broken(name, at, error);
        await sleep(FIRST_PAUSE_MS * 2 ** (failures - 1), undefined, { signal });
      }
    }
  }

  return (object, name) => ({
    name,
    bytes: object.bytes,
    stream: (from) => spans(object, name, { from, to: object.bytes }),
    async read(from, to) {
      const out = new Uint8Array(to - from);
      let at = 0;
      for await (const part of spans(object, name, { from, to })) {
        out.set(part, at);
        at += part.byteLength;
      }
      return out;
    },
  });
}

/** Retries requests that are not streams while the store is busy. */
export async function patiently<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof BusyError) || failures >= TRIES) throw error;
      await sleep(FIRST_PAUSE_MS * 2 ** (failures - 1), undefined, { signal });
    }
  }
}

function isPassing(error: unknown, begun: boolean): boolean {
  if (error instanceof BusyError) return true;
  if (!begun) return false;
  const cause = error instanceof SourceError && error.code === "unreachable" ? error.cause : error;
  return cause instanceof DialError && cause.code !== "address_refused" && cause.code !== "tls";
}

const broken = (name: string, at: number, cause: unknown) =>
  new SourceError(
    "broken",
    `${name}: the connection broke ${TRIES} times at byte ${at}: ${connectionFailure(cause)}`,
    null,
    {
      cause,
    },
  );
