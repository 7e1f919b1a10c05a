import { jsonDepth } from "../json_depth.ts";

const MAX_DEPTH = 64;
const CLOSERS = /[\]}]/g;

/**
 * Whether a text may hold what JSON allows and no reader can keep: an escape of half a character, a number beyond what
 * a double holds. Cheap, over many rows at once; those it points at are looked at one by one.
 */
export const isDoubtful = (text: string): boolean => /\\u[dD][89a-fA-F]|\d[eE]\+?\d{3}|\d{300}/.test(text);

/** Digits that a double would round, and the minus that JSON.stringify forgets. */
export const hasLongNumbers = (text: string): boolean => /\d[\d.]{15}|-0(?!\d)/.test(text);

/** Throws SyntaxError; the text of the error is for people. */
export function parseJson(text: string, doubtful: boolean): unknown {
  const value: unknown = JSON.parse(text);
  if ((text.match(CLOSERS)?.length ?? 0) > MAX_DEPTH && jsonDepth(new TextEncoder().encode(text)) > MAX_DEPTH)
    throw new SyntaxError(`it is nested more than ${MAX_DEPTH} levels deep`);
  if (doubtful) refuseUnkeepable(value);
  return value;
}

function refuseUnkeepable(value: unknown) {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new SyntaxError("it holds a number beyond what a double can hold, such as 1e400");
  if (typeof value === "string" && !value.isWellFormed())
    throw new SyntaxError("it holds half a character (a lone surrogate escape)");
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (!key.isWellFormed()) throw new SyntaxError("it holds half a character (a lone surrogate escape)");
    refuseUnkeepable(inner);
  }
}

type Source = { source?: string };
const raw = (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON;

/** As JSON.parse, but numbers keep their digits when they are written again. They are opaque objects meanwhile. */
export const parseExact = (text: string): unknown =>
  JSON.parse(text, ((_key: string, value: unknown, context?: Source) =>
    typeof value === "number" && context?.source !== undefined ? raw(context.source) : value) as never);
