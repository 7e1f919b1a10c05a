/** Patterns over paths: `*` and `?` stay within a folder, `**` crosses folders, {a,b} and [0-9] are alternatives. */
export const isGlob = (text: string) => /[*?[{]/.test(text);

/** Returns the text before the first special character. */
export const literalOf = (pattern: string) => /^[^*?[{]*/.exec(pattern)?.[0] ?? "";

export function globMatcher(pattern: string): (path: string) => boolean {
  const glob = new Bun.Glob(pattern);
  return (path) => glob.match(path);
}

const isSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdfff;

/** Compares by UTF-8 bytes, the order in which stores list: characters beyond 16 bits come last. */
export function byBytes(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const [left, right] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (left === right) continue;
    if (isSurrogate(left) !== isSurrogate(right)) return isSurrogate(left) ? 1 : -1;
    return left - right;
  }
  return a.length - b.length;
}
