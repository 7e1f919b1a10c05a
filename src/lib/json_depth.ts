const QUOTE = 34;
const BACKSLASH = 92;
const LONG = 4096; // a string that goes on is searched for its end by the runtime: a file in base64 has millions of digits

/** Deepest nesting of a JSON text, read from its bytes: parsers and validators recurse, so it is bounded first. */
export function jsonDepth(bytes: Uint8Array): number {
  let depth = 0;
  let deepest = 0;
  for (let i = 0; i < bytes.length; i++) {
    const c = bytes[i];
    if (c === QUOTE) i = endOfString(bytes, i + 1);
    else if (c === 91 || c === 123) {
      if (++depth > deepest) deepest = depth;
    } else if (c === 93 || c === 125) depth--;
  }
  return deepest;
}

/** Where its closing quote is, or the end where there is none. */
function endOfString(bytes: Uint8Array, from: number): number {
  let i = from;
  let long = from + LONG;
  let quote = -1;
  for (; i < bytes.length; i++) {
    if (bytes[i] === QUOTE) return i;
    if (bytes[i] === BACKSLASH) i++;
    else if (i >= long) {
      if (quote < i) quote = bytes.indexOf(QUOTE, i); // kept: no byte is searched twice
      if (quote < 0) return bytes.length;
      const plain = bytes.subarray(i, quote).indexOf(BACKSLASH);
      if (plain < 0) return quote;
      i += plain - 1; // byte by byte again: escapes come in crowds
      long = i + LONG;
    }
  }
  return bytes.length;
}
