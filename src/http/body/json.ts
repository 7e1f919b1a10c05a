import type { z } from "zod";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { ListExcess, parseWithList } from "../../lib/json/list.ts";
import { jsonExcess } from "../../lib/json/scan.ts";
import { hasOddNumbers, parseExact, parseWithExact } from "../../lib/rows/json.ts";
import { deepest, type Issue, schemaError } from "../answer/issues.ts";
import type { BodyLimits } from "../limits/body_limits.ts";
import { callerOf } from "../request_state.ts";
import { readBytes } from "./read_bytes.ts";
import { checkFields } from "./unknown_fields.ts";
import { unpacked } from "./unpack.ts";

const MAX_DEPTH = 64;
const MAX_FIELDS = 1_000;
const SHORT_BYTES = 65_536; // parsed in one go
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
const JSON_TYPE = /^application\/(json|[\w.+-]+\+json)\s*(;|$)/i;

/** Marks a missing body: right on a route that takes none, a malformed request on one that does. */
export const NO_BODY = Symbol("no body");

/**
 * `list`: a member that may be long; its elements are parsed one by one. `exact`: numbers in them keep their digits when
 * they are written again (see parseExact). `grow`: called with the byte count as the body arrives, see `readBytes`.
 */
export type Reading = BodyLimits & {
  list?: { name: string; most: number; exact?: boolean };
  grow?: (bytes: number) => void;
  /** Clients send this JSON under any content type. */
  anyType?: boolean;
};

/** Reads a JSON body within its limits; every way it can be wrong is a 4xx that says what to send instead. */
export async function readJson(ctx: Ctx, request: Request, reading: Reading): Promise<unknown> {
  if (request.body === null) return NO_BODY;
  const type = request.headers.get("content-type");
  if (type !== null && !reading.anyType && !JSON_TYPE.test(type))
    throw new AppError("unsupported_media_type", `Send the body as application/json, not ${type.slice(0, 80)}`);
  const workspaceId = callerOf(request)?.workspaceId ?? "";
  const sent = await readBytes(ctx, request, { ...reading, workspaceId });
  const bytes = await unpacked(ctx, request, sent, { maxBytes: reading.maxBytes, workspaceId });
  if (bytes.length === 0) return NO_BODY;
  const wait = ctx.state.http.turns.enter(workspaceId, bytes.length);
  if (wait) await wait;
  const { maxValues, maxFields = MAX_FIELDS } = reading;
  const excess = await jsonExcess(bytes, { maxDepth: MAX_DEPTH, maxValues, maxFields });
  if (excess === "depth") throw new AppError("invalid_json", `The body is nested more than ${MAX_DEPTH} levels deep`);
  if (excess === "values")
    throw new AppError("payload_too_large", `The body has more than ${maxValues} values (list elements and fields)`);
  if (excess === "fields")
    throw new AppError("payload_too_large", `An object in the body has more than ${maxFields} fields`);
  try {
    return await parse(bytes, reading);
  } catch (cause) {
    if (cause instanceof ListExcess) throw tooMany(reading);
    throw new AppError("invalid_json", "The body is not valid JSON in UTF-8", { cause });
  }
}

function parse(bytes: Uint8Array, { list, maxBytes }: Reading): unknown {
  if (list === undefined) return JSON.parse(strictUtf8.decode(bytes));
  const { name, most, exact = false } = list;
  if (bytes.length <= SHORT_BYTES) {
    const text = strictUtf8.decode(bytes);
    return exact ? parseWithExact(text, name) : JSON.parse(text);
  }
  const element = (text: string) => (exact && hasOddNumbers(text) ? parseExact(text) : JSON.parse(text));
  return parseWithList(bytes, { name, element, maxElements: most, maxElementBytes: maxBytes, maxRestBytes: maxBytes });
}

const tooMany = ({ list }: Reading) =>
  new AppError("schema", `${list?.name}: takes at most ${list?.most} elements`, { param: `/${list?.name}` });

/**
 * For a route that takes several kinds of body, or one that may be missing, and reads it itself; the others say
 * `takes(Schema)`.
 */
export async function readBody<S extends z.ZodType>(
  ctx: Ctx,
  request: Request,
  reading: Reading,
  schema: S,
  missing?: z.output<S>,
): Promise<z.output<S>> {
  const value = await readJson(ctx, request, reading);
  if (value === NO_BODY && missing !== undefined) return missing;
  if (value === NO_BODY) throw new AppError("invalid_json", "The body is empty: send a JSON object");
  checkFields(request, schema, value);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues as Issue[];
  throw schemaError(issue && deepest(issue));
}
