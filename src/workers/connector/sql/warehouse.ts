/** The REST interface of a warehouse: requests pass the guard, long answers are streamed. */

import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { connectionFailure } from "../../../lib/net/connection_failure.ts";
import type { OpenedResponse } from "../../../platform/network/http_client.ts";
import { readText } from "../body.ts";
import type { Dialer } from "../dialer.ts";
import { patiently } from "../objects/reader.ts";
import { BusyError } from "../objects/store.ts";
import { type Limits, SourceError } from "../types.ts";
import { membersOf } from "./members.ts";

export type Warehouse = {
  /** The name in messages: BigQuery. */
  name: string;
  /** The address without a slash at its end. */
  endpoint: string;
  authorize: (signal: AbortSignal) => Promise<Record<string, string>>;
  /** Turns an error response into a message. `body` is undefined if it was not JSON. */
  refusal: (status: number, body: unknown) => SourceError;
  dialer: Dialer;
  limits: Limits;
};
export type Call = { path: string; body?: object; signal: AbortSignal };
export type Answer = { status: number; body: unknown };

const BUSY = [429, 502, 503, 504];
const REFUSAL_BYTES = 100_000;
const ANSWER_BYTES = 8_000_000;
/** A row in a warehouse's own format may be longer than its JSON. */
const overhead = (rowBytes: number) => 2 * rowBytes + 65_536;

/** With a body it is a POST, which is sent once. A GET is retried while the warehouse is busy. */
async function send(warehouse: Warehouse, call: Call): Promise<OpenedResponse> {
  return call.body === undefined
    ? await patiently(call.signal, () => sendOnce(warehouse, call))
    : await sendOnce(warehouse, call);
}

async function sendOnce(warehouse: Warehouse, { path, body, signal }: Call): Promise<OpenedResponse> {
  signal.throwIfAborted();
  const { name, endpoint, dialer, authorize, refusal } = warehouse;
  const headers = { accept: "application/json", ...(await authorize(signal)) };
  const response = await dialer.fetch(`${endpoint}${path}`, {
    signal,
    ...(body === undefined
      ? { headers }
      : { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  if (response.status < 300) return response;
  const said = parsed(await readText({ stream: unpacked(response) }, REFUSAL_BYTES));
  if (BUSY.includes(response.status))
    throw new BusyError(`${name} answered ${response.status}. It is busy: try again later`);
  throw refusal(response.status, said);
}

export async function ask(warehouse: Warehouse, call: Call): Promise<Answer> {
  const response = await send(warehouse, call);
  const text = await guarded(warehouse, call.signal, readText({ stream: unpacked(response) }, ANSWER_BYTES));
  const body = parsed(text);
  if (body === undefined) throw foreign(warehouse);
  return { status: response.status, body };
}

/** Yields the members of the list `key` as texts, some at a time, and returns the rest of the answer. */
export async function* askMembers(warehouse: Warehouse, call: Call, key: string): AsyncGenerator<string[], Answer> {
  const response = await send(warehouse, call);
  const members = membersOf(unpacked(response), key, overhead(warehouse.limits.rowBytes));
  try {
    for (;;) {
      const { done, value } = await guarded(warehouse, call.signal, members.next());
      if (done) return { status: response.status, body: value };
      yield value;
    }
  } finally {
    await members.return(undefined).catch(() => {});
  }
}

async function guarded<T>(warehouse: Warehouse, signal: AbortSignal, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SourceError) throw error;
    if (error instanceof SyntaxError) throw foreign(warehouse);
    throw new SourceError("broken", `The connection to ${warehouse.name} was lost: ${connectionFailure(error)}`, null, {
      cause: error,
    });
  }
}

const foreign = ({ name, endpoint }: Warehouse) =>
  new SourceError("broken", `${endpoint} does not answer like ${name}, or the answer is truncated`);

/** Snowflake compresses its partitions even without a request for it. */
async function* unpacked(response: OpenedResponse): AsyncGenerator<Uint8Array> {
  if (response.headers.get("content-encoding") !== "gzip") return yield* response.stream;
  const unpacker = createGunzip();
  pipeline(Readable.from(response.stream, { objectMode: true, highWaterMark: 1 }), unpacker, () => {}); // thrown below
  for await (const part of unpacker) yield part as Uint8Array;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
  });
}

/** Cancelling is a request with its own timeout: the caller's signal is already aborted. */
export async function cancel(warehouse: Warehouse, path: string): Promise<void> {
  // otherwise it ends by its own timeout
  await ask(warehouse, { path, body: {}, signal: AbortSignal.timeout(CANCEL_MS) }).catch(() => {});
}
const CANCEL_MS = 900;

/** Returns the given address, or the public one. */
export function endpointIn(text: string | undefined, otherwise: string): string {
  if (text === undefined) return otherwise;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain = url && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
  if (plain && url.username === "" && url.password === "") return url.href.replace(/\/+$/, "");
  throw new SourceError(
    "invalid_source",
    "endpoint must be an http(s) address such as https://warehouse.lab:8443, without a query",
    "/db_connection/endpoint",
  );
}
