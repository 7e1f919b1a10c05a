/** Line numbers of a TOML file, for messages. The parser gives none. */

/** The line of a setting such as `http.listen`, or of the section `http`; undefined: written in another way. */
export function lineOf(text: string, path: string): number | undefined {
  const [section, key] = path.includes(".") ? path.split(".", 2) : ["", path];
  let current = "";
  for (const [i, line] of text.split("\n").entries()) {
    const header = /^\s*\[\s*([\w-]+)\s*\]/.exec(line)?.[1];
    if (header !== undefined) {
      current = header;
      if (header === path) return i + 1;
    }
    const name = /^\s*"?([\w-]+)"?\s*=/.exec(line)?.[1];
    if (name === key && current === section) return i + 1;
  }
  return undefined;
}

/** The line after the longest beginning of the file that is valid. */
export function brokenLine(text: string): number {
  const lines = text.split("\n");
  let good = 0;
  for (let n = 1; n <= lines.length; n++) if (isToml(lines.slice(0, n).join("\n"))) good = n;
  return good + 1;
}

function isToml(text: string): boolean {
  try {
    Bun.TOML.parse(text);
    return true;
  } catch {
    return false;
  }
}
