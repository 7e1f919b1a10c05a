import { createJsonScan } from "../json/scan.ts";

const MAX_DEPTH = 64;
const CLOSERS = /[\]}]/g;
const encoder = new TextEncoder();

/**
 * True if a text may hold what JSON allows and no reader can keep: an escape of half a character, or a number beyond a
 * double. A cheap check of many rows at once; rows it reports are then checked one by one.
 */
export const isDoubtful = (text: string): boolean => /\\u[dD][89a-fA-F]|\d[eE]\+?\d{3}|\d{300}/.test(text);

/**
 * True if a text may hold numbers that would be written in another form: `1.50`, `1e2`, `-0`, many digits. It may
 * report text such as `v2.0` in a string, and never misses a number.
 */
export const hasOddNumbers = (text: string): boolean => /\d[\d.]{15}|-0(?!\d)|\.\d*0(?!\d)|\d[eE]|0\.000000/.test(text);

/** JSON, but not a row that could be kept. */
export class UnkeepableError extends Error {}

/** More than any text for people has: parsing a row takes tens of milliseconds then, on the thread that serves. */
const MAX_ROW_VALUES = 250_000;

/** Throws UnkeepableError for a row that would take long to parse, or more of the stack than there is. */
export function refuseUnbounded(text: string) {
  const mayHaveMany = text.length > 2 * MAX_ROW_VALUES; // a value takes two characters at least
  if (!mayHaveMany && (text.match(CLOSERS)?.length ?? 0) <= MAX_DEPTH) return;
  const scan = createJsonScan(encoder.encode(text), { maxDepth: MAX_DEPTH, maxValues: MAX_ROW_VALUES });
  for (let step = scan(); step !== "done"; step = scan()) {
    if (step === "depth") throw new UnkeepableError(`it is nested more than ${MAX_DEPTH} levels deep`);
    if (step === "values")
      throw new UnkeepableError(`it has more than ${MAX_ROW_VALUES} values (list elements and fields)`);
  }
}

/** Throws SyntaxError or UnkeepableError; the text of the error is for people. */
export function parseJson(text: string, doubtful: boolean): unknown {
  refuseUnbounded(text);
  const value: unknown = JSON.parse(text);
  if (doubtful) refuseUnkeepable(value);
  return value;
}

function refuseUnkeepable(value: unknown) {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new UnkeepableError("it holds a number beyond what a double can hold, such as 1e400");
  if (typeof value === "string" && !value.isWellFormed())
    throw new UnkeepableError("it holds half a character (a lone surrogate escape)");
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (!key.isWellFormed()) throw new UnkeepableError("it holds half a character (a lone surrogate escape)");
    refuseUnkeepable(inner);
  }
}

type Source = { source?: string };
type Raw = { rawJSON: (text: string) => unknown; isRawJSON: (value: unknown) => value is { rawJSON: string } };
const { rawJSON: raw, isRawJSON } = JSON as unknown as Raw;

/** As JSON.parse, but numbers keep their digits when they are written again. They are opaque objects meanwhile. */
export const parseExact = (text: string): unknown =>
  JSON.parse(text, ((_key: string, value: unknown, context?: Source) =>
    typeof value === "number" && context?.source !== undefined ? raw(context.source) : value) as never);

/** As JSON.parse; the numbers in the member `name` of the object are those of parseExact. */
export function parseWithExact(text: string, name: string): unknown {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name) || !hasOddNumbers(text)) return value;
  return { ...value, [name]: (parseExact(text) as Record<string, unknown>)[name] };
}

/** The number that parseExact gave, or the value as it is. */
export const numberOf = (value: unknown): unknown => (isRawJSON(value) ? Number(value.rawJSON) : value);
