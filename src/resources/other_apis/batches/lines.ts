/** Reads the input file of a batch: one request per line. Pure, except for the bytes that it is given. */
import { jsonExcess } from "../../../lib/json/scan.ts";
import type { BatchError, Endpoint } from "./table.ts";

export const MOST_REQUESTS = 50_000;
const MOST_ERRORS = 50;
const MAX_DEPTH = 64;
const MAX_FIELDS = 10_000;
const LONGEST_ID = 512;
const LF = 10;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

export type RequestLine = { customId: string; byteOffset: number; byteLength: number };
type Limits = { endpoint: Endpoint; maxBytes: number; maxValues: number };
type Line = { bytes: Uint8Array; offset: number; number: number };

/** The lines of a file with their places, in constant memory: one chunk and at most one line. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Line> {
  let held: Uint8Array = new Uint8Array();
  let offset = 0; // of the held bytes
  let number = 0;
  for await (const chunk of chunks) {
    const all = held.byteLength === 0 ? chunk : Buffer.concat([held, chunk]);
    let from = 0;
    for (let end = all.indexOf(LF); end >= 0; end = all.indexOf(LF, from)) {
      yield { bytes: all.subarray(from, end), offset: offset + from, number: ++number };
      from = end + 1;
    }
    held = all.slice(from);
    offset += from;
    if (held.byteLength > maxBytes) break; // the line is refused for its length
  }
  if (held.byteLength > 0) yield { bytes: held, offset, number: number + 1 };
}

/** A request of a batch, or the reason why the line is none. */
export async function parseLine(
  bytes: Uint8Array,
  limits: Limits,
): Promise<{ customId: string; body: object } | string> {
  if (bytes.byteLength > limits.maxBytes) return `The line is longer than ${limits.maxBytes} bytes`;
  const { maxValues } = limits;
  if ((await jsonExcess(bytes, { maxDepth: MAX_DEPTH, maxValues, maxFields: MAX_FIELDS })) !== undefined)
    return `The line is nested more than ${MAX_DEPTH} levels deep, or has more than ${maxValues} values`;
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(strictUtf8.decode(bytes)) as Record<string, unknown>;
  } catch {
    return "The line is not valid JSON in UTF-8";
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "The line must be a JSON object";
  const { custom_id: customId, method, url, body } = value;
  if (typeof customId !== "string" || customId === "" || customId.length > LONGEST_ID)
    return `custom_id: must be a text of 1 to ${LONGEST_ID} characters`;
  if (method !== "POST") return "method: must be POST";
  if (url !== limits.endpoint) return `url: must be ${limits.endpoint}, the endpoint of the batch`;
  if (typeof body !== "object" || body === null || Array.isArray(body)) return "body: must be a JSON object";
  return { customId, body };
}

const isBlank = (bytes: Uint8Array) => bytes.every((byte) => byte === 32 || byte === 9 || byte === 13);

/** All requests of a file, or its faults. A file with a fault runs no request. */
export async function readRequests(chunks: AsyncIterable<Uint8Array>, limits: Limits) {
  const requests: RequestLine[] = [];
  const errors: BatchError[] = [];
  const ids = new Set<string>();
  const fault = (line: number | null, code: string, message: string) =>
    void errors.push({ code, line, message, param: null });
  for await (const { bytes, offset, number } of linesOf(chunks, limits.maxBytes)) {
    if (isBlank(bytes)) continue;
    const read = await parseLine(bytes, limits);
    if (typeof read === "string") fault(number, "invalid_request", read);
    else if (ids.has(read.customId)) fault(number, "duplicate_custom_id", `custom_id: ${read.customId} is there twice`);
    else {
      ids.add(read.customId);
      requests.push({ customId: read.customId, byteOffset: offset, byteLength: bytes.byteLength });
    }
    if (requests.length > MOST_REQUESTS) fault(number, "too_many_requests", `A batch takes ${MOST_REQUESTS} requests`);
    if (errors.length >= MOST_ERRORS || requests.length > MOST_REQUESTS) break;
  }
  if (requests.length === 0 && errors.length === 0) fault(null, "empty_file", "The input file has no requests");
  return { requests, errors };
}
