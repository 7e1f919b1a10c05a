import { takingTurns } from "../turns.ts";
import { MIB } from "../units.ts";

const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const LONG = 4096; // a string that goes on is searched for its end by the runtime: a file in base64 has millions of digits
const DEEPEST = 1_024; // below it fields are not counted
const STEP_BYTES = MIB; // some milliseconds

export type JsonLimits = {
  maxDepth: number;
  maxValues: number;
  /** Limit for one object. A parser needs several times as long for an object of many fields as for a list. */
  maxFields?: number;
};
export type JsonExcess = "depth" | "values" | "fields";
type Step = JsonExcess | "more" | "done";

/**
 * Measures a JSON text from its bytes, before anything is parsed: parsers and validators recurse, and their work grows
 * with the number of values. Counted are commas and opening brackets, which are never fewer than the values after the
 * first.
 */
export function createJsonScan(bytes: Uint8Array, limits: JsonLimits): () => Step {
  const { maxDepth, maxValues, maxFields = Number.POSITIVE_INFINITY } = limits;
  const fields = new Float64Array(Math.min(maxDepth, DEEPEST) + 1); // by depth; in a list it starts below any limit
  let at = 0;
  let depth = 0;
  let values = 0;
  let inString = false;
  let quote = -1; // the next quote after a long stretch, kept: no byte is searched twice

  /** Moves `at` behind the closing quote, or to `end` or beyond it. */
  function skipString(end: number) {
    for (let long = at + LONG; at < end; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        inString = false;
        at++;
        return;
      }
      if (byte === BACKSLASH) at++;
      else if (at >= long) {
        if (quote < at) quote = bytes.indexOf(QUOTE, at);
        const stop = quote < 0 ? bytes.length : quote;
        const plain = bytes.subarray(at, stop).indexOf(BACKSLASH);
        at = (plain < 0 ? stop : at + plain) - 1; // byte by byte again: escapes come in crowds
        long = at + LONG;
      }
    }
  }

  return () => {
    const end = Math.min(bytes.length, at + STEP_BYTES);
    while (at < end) {
      if (inString) {
        skipString(end);
        continue;
      }
      const byte = bytes[at++];
      if (byte === QUOTE) inString = true;
      else if (byte === COMMA) {
        if (++values > maxValues) return "values";
        const count = (fields[depth] as number) + 1;
        fields[depth] = count;
        if (count > maxFields) return "fields";
      } else if (byte === 91 || byte === 123) {
        if (++depth > maxDepth) return "depth";
        if (++values > maxValues) return "values";
        fields[depth] = byte === 123 ? 1 : Number.NEGATIVE_INFINITY;
      } else if (byte === 93 || byte === 125) depth--;
    }
    return at < bytes.length ? "more" : "done";
  };
}

/** The limit that the text exceeds. A long text takes turns with other work. */
export async function jsonExcess(bytes: Uint8Array, limits: JsonLimits): Promise<JsonExcess | undefined> {
  const scan = createJsonScan(bytes, limits);
  const turn = takingTurns();
  for (;;) {
    const step = scan();
    if (step === "done") return undefined;
    if (step !== "more") return step;
    await turn();
  }
}
