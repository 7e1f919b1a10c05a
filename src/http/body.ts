import type { z } from "zod";
import { AppError } from "../lib/errors.ts";
import { jsonDepth } from "../lib/json_depth.ts";
import { parseWithExact } from "../lib/rows/json.ts";
import { deepest, type Issue, schemaError } from "./issues.ts";

const MAX_DEPTH = 64;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
const JSON_TYPE = /^application\/(json|[\w.+-]+\+json)\s*(;|$)/i;

/** Stands for a missing body: right on a route that takes none, a malformed request on one that does. */
export const NO_BODY = Symbol("no body");

/**
 * Reads a JSON body within its limits; every way it can be wrong is a 4xx that says what to send instead. `exactly`:
 * a field whose numbers keep their digits when they are written again (see parseExact).
 */
export async function readJson(request: Request, maxBytes: number, exactly?: string): Promise<unknown> {
  if (request.body === null) return NO_BODY;
  const type = request.headers.get("content-type");
  if (type !== null && !JSON_TYPE.test(type))
    throw new AppError("unsupported_media_type", `Send the body as application/json, not ${type.slice(0, 80)}`);
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0) return NO_BODY;
  if (jsonDepth(bytes) > MAX_DEPTH)
    throw new AppError("invalid_json", `The body is nested more than ${MAX_DEPTH} levels deep`);
  try {
    const text = strictUtf8.decode(bytes);
    return exactly === undefined ? JSON.parse(text) : parseWithExact(text, exactly);
  } catch (cause) {
    throw new AppError("invalid_json", "The body is not valid JSON in UTF-8", { cause });
  }
}

/**
 * For a route that takes several kinds of body, or one that may be missing, and reads it itself; the others say
 * `takes(Schema)`.
 */
export async function readBody<S extends z.ZodType>(
  request: Request,
  maxBytes: number,
  schema: S,
  missing?: z.output<S>,
): Promise<z.output<S>> {
  const value = await readJson(request, maxBytes);
  if (value === NO_BODY && missing !== undefined) return missing;
  if (value === NO_BODY) throw new AppError("invalid_json", "The body is empty: send a JSON object");
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues as Issue[];
  throw schemaError(issue && deepest(issue));
}

export async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () => new AppError("payload_too_large", `The body is larger than ${maxBytes} bytes`);
  const declared = request.headers.get("content-length");
  if (declared !== null) {
    if (Number(declared) > maxBytes) throw tooLarge();
    return new Uint8Array(await request.arrayBuffer());
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
