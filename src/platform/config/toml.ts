/** TOML beyond its parser: values as text, and the line numbers that messages need. */

export type TomlValue = string | number | boolean | readonly TomlValue[];

/** One TOML value as text that any TOML parser reads back unchanged. */
export function tomlValue(value: TomlValue): string {
  if (typeof value === "string") return tomlString(value);
  if (typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (Number.isNaN(value)) return "nan";
    if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
    return String(value);
  }
  return `[${value.map(tomlValue).join(", ")}]`;
}

/** JSON's escapes are a subset of TOML's basic string; DEL alone must be escaped in TOML and not in JSON. */
const tomlString = (text: string) => JSON.stringify(text).replaceAll("\x7f", "\\u007f");

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
