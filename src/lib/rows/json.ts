import { createJsonScan } from "../json/scan.ts";

const MAX_DEPTH = 64;
const CLOSERS = /[\]}]/g;
const encoder = new TextEncoder();

/**
 * True if a text may contain valid JSON that cannot be stored: an escape of half a character, or a number beyond a
 * double. Cheap over many rows at once; suspicious ones are then checked one by one.
 */
export const isDoubtful = (text: string): boolean => /\\u[dD][89a-fA-F]|\d[eE]\+?\d{3}|\d{300}/.test(text);

/**
 * True if a text may contain numbers that would be written differently: `1.50`, `1e2`, `-0`, many digits. False
 * positives are possible (`v2.0` in a string), false negatives are not.
 */
export const hasOddNumbers = (text: string): boolean => /\d[\d.]{15}|-0(?!\d)|\.\d*0(?!\d)|\d[eE]|0\.000000/.test(text);

/** Valid JSON that cannot be stored as a row. */
export class UnkeepableError extends Error {}

/** More than any text for humans has: parsing such a row takes tens of milliseconds on the serving thread. */
const MAX_ROW_VALUES = 250_000;

/** Throws UnkeepableError for a row that would take too long to parse, or overflow the stack. */
export function refuseUnbounded(text: string) {
  const mayHaveMany = text.length > 2 * MAX_ROW_VALUES; // a value takes at least two characters
  if (!mayHaveMany && (text.match(CLOSERS)?.length ?? 0) <= MAX_DEPTH) return;
  const scan = createJsonScan(encoder.encode(text), { maxDepth: MAX_DEPTH, maxValues: MAX_ROW_VALUES });
  for (let step = scan(); step !== "done"; step = scan()) {
    if (step === "depth") throw new UnkeepableError(`it is nested more than ${MAX_DEPTH} levels deep`);
    if (step === "values")
      throw new UnkeepableError(`it has more than ${MAX_ROW_VALUES} values (list elements and fields)`);
  }
}

/** Throws SyntaxError or UnkeepableError; the message is for users. */
export function parseJson(text: string, doubtful: boolean): unknown {
  refuseUnbounded(text);
  const value: unknown = JSON.parse(text);
  if (doubtful) refuseUnkeepable(value);
  return value;
}

function refuseUnkeepable(value: unknown) {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new UnkeepableError("it contains a number too large for a double, such as 1e400");
  if (typeof value === "string" && !value.isWellFormed())
    throw new UnkeepableError("it contains half a character (a lone surrogate escape)");
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (!key.isWellFormed()) throw new UnkeepableError("it contains half a character (a lone surrogate escape)");
    refuseUnkeepable(inner);
  }
}

type Source = { source?: string };
type Raw = { rawJSON: (text: string) => unknown; isRawJSON: (value: unknown) => value is { rawJSON: string } };
const { rawJSON: raw, isRawJSON } = JSON as unknown as Raw;

/** Like JSON.parse, but numbers keep their digits when they are written again. Meanwhile they are opaque objects. */
export const parseExact = (text: string): unknown =>
  JSON.parse(text, ((_key: string, value: unknown, context?: Source) =>
    typeof value === "number" && context?.source !== undefined ? raw(context.source) : value) as never);

/** Like JSON.parse, but numbers in the member `name` of the object are parsed as by parseExact. */
export function parseWithExact(text: string, name: string): unknown {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name) || !hasOddNumbers(text)) return value;
  return { ...value, [name]: (parseExact(text) as Record<string, unknown>)[name] };
}

/** Returns the number that parseExact produced, or the value itself. */
export const numberOf = (value: unknown): unknown => (isRawJSON(value) ? Number(value.rawJSON) : value);
