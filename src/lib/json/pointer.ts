/** A JSON pointer (RFC 6901): `["a/b", 0]` → `/a~1b/0`. An empty path is the whole document. */
export const jsonPointer = (path: readonly PropertyKey[]): string =>
  path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
