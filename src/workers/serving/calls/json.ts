/** JSON values inside other text. Pure. */

/** Returns undefined for text that is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Finds the end of an object or a list that arrives in pieces. Returns how many characters of `text` belong to it;
 * fewer than its length if the value ended. `depth`: how many brackets are open at the start.
 */
export function createJsonScan(depth = 0) {
  let open = depth;
  let quoted = false;
  let escaped = false;
  const scan = {
    done: false,
    next(text: string): number {
      for (let i = 0; i < text.length; i++) {
        if (scan.done) return i;
        const char = text[i];
        if (escaped) escaped = false;
        else if (quoted) {
          if (char === "\\") escaped = true;
          else if (char === '"') quoted = false;
        } else if (char === '"') quoted = true;
        else if (char === "{" || char === "[") open++;
        else if (char === "}" || char === "]") scan.done = --open <= 0;
      }
      return text.length;
    },
  };
  return scan;
}

/** Returns the length of the object at the start of the text, or undefined if it is not complete. */
export function objectLength(text: string): number | undefined {
  const scan = createJsonScan();
  const length = scan.next(text);
  return scan.done ? length : undefined;
}
