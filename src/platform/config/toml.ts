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
