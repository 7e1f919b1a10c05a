import { takingTurns } from "../turns.ts";

const [QUOTE, COMMA, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [34, 44, 92, 91, 93, 123, 125];
const COLON = 58;
const whole = new TextDecoder("utf-8", { fatal: true });
const part = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }); // inside a text a byte order mark is malformed
const NULL = new TextEncoder().encode("null");

export type ListOptions = {
  /** The member that is the list. */
  name: string;
  maxElements: number;
  maxElementBytes: number;
  /** The text without the elements, which is parsed in one go. */
  maxRestBytes: number;
  /** Turns the text of one element into a value, and throws SyntaxError as JSON.parse does. */
  element: (text: string, index: number) => unknown;
};

/** A limit of ListOptions is exceeded. `index`: the element at fault, or the first one too many. */
export class ListExcess extends Error {
  constructor(
    readonly limit: "maxElements" | "maxElementBytes" | "maxRestBytes",
    readonly index: number,
  ) {
    super(`The list exceeds ${limit}`);
    this.name = "ListExcess";
  }
}

/**
 * JSON.parse of an object with one long list in it: each element is parsed alone, and other work gets its turn in
 * between. The result is what JSON.parse gives, but that elements are what `element` made of them. Throws SyntaxError,
 * TypeError for bytes that are not UTF-8, or ListExcess.
 */
export async function parseWithList(bytes: Uint8Array, options: ListOptions): Promise<unknown> {
  const { name, maxElements, maxElementBytes, maxRestBytes, element } = options;
  const turn = takingTurns();
  const rest: Uint8Array[] = []; // the text without the elements
  let restBytes = 0;
  let restFrom = 0;
  let list: unknown[] | undefined; // of the last member of this name, as JSON.parse takes the last

  let at = 0;
  let depth = 0;
  let key: string | undefined; // the last string at depth 1
  let isValue = false; // a colon has come since the last comma of depth 1

  const skipString = (from: number): number => {
    for (let i = from; i < bytes.length; i++) {
      if (bytes[i] === QUOTE) return i + 1;
      if (bytes[i] === BACKSLASH) i++;
      else if (i - from === 4096) {
        // Long strings are mostly plain: the runtime looks for their end.
        const end = bytes.indexOf(QUOTE, i);
        const stop = end < 0 ? bytes.length : end;
        if (bytes.subarray(i, stop).indexOf(BACKSLASH) < 0) return Math.min(stop + 1, bytes.length);
      }
    }
    return bytes.length;
  };

  /** `at` is behind the opening bracket; moves it behind the closing one. */
  async function readElements(): Promise<unknown[]> {
    const elements: unknown[] = [];
    let inner = 0;
    let from = at;
    const take = async (end: number) => {
      if (elements.length === maxElements) throw new ListExcess("maxElements", elements.length);
      elements.push(element(part.decode(bytes.subarray(from, end)), elements.length));
      from = end + 1;
      await turn();
    };
    while (at < bytes.length) {
      const byte = bytes[at++] as number;
      if (at - from > maxElementBytes + 1) throw new ListExcess("maxElementBytes", elements.length);
      if (byte === QUOTE) at = skipString(at);
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) inner++;
      else if (byte === COMMA && inner === 0) await take(at - 1);
      else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        if (inner-- > 0) continue;
        if (byte === CLOSE_OBJECT) throw new SyntaxError("The list is not closed");
        if (elements.length > 0 || !isBlank(bytes, from, at - 1)) await take(at - 1);
        return elements;
      }
    }
    throw new SyntaxError("The list has no end");
  }

  while (at < bytes.length) {
    const byte = bytes[at++] as number;
    if (restBytes + at - restFrom > maxRestBytes) throw new ListExcess("maxRestBytes", 0);
    if (byte === QUOTE) {
      const from = at - 1;
      at = skipString(at);
      if (depth === 1 && !isValue) key = keyOf(bytes.subarray(from, at));
    } else if (byte === OPEN_LIST && depth === 1 && isValue && key === name) {
      rest.push(bytes.subarray(restFrom, at - 1), NULL);
      restBytes += at - restFrom;
      list = await readElements();
      restFrom = at;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--;
    else if (depth === 1 && byte === COLON) {
      isValue = true;
      if (key === name) list = undefined; // a later member of the same name, list or not
    } else if (depth === 1 && byte === COMMA) [isValue, key] = [false, undefined];
  }
  rest.push(bytes.subarray(restFrom));
  const value: unknown = JSON.parse(whole.decode(Buffer.concat(rest)));
  return list === undefined ? value : { ...(value as object), [name]: list };
}

function keyOf(bytes: Uint8Array): string | undefined {
  try {
    return JSON.parse(part.decode(bytes)) as string;
  } catch {
    return undefined; // the whole text is refused for it in the end
  }
}

function isBlank(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) {
    const byte = bytes[i];
    if (byte !== 32 && byte !== 9 && byte !== 10 && byte !== 13) return false;
  }
  return true;
}
