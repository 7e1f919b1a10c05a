import type { Section, Setting, SettingsTree } from "./section.ts";
import { type TomlValue, tomlValue } from "./toml.ts";

/** Reading a tree of settings: its leaves, the environment names they have, and the commented default file. */

export type Leaf = {
  path: string; // "http.listen"
  env: string; // "VERK_HTTP__LISTEN"
  doc: string;
  kind: "string" | "number" | "boolean" | "list";
  fallback: TomlValue;
  secret: boolean;
  live: boolean;
  schema: Setting["schema"];
};

/** Sections and leaves, in the order they were written. A section has no leaf of its own. */
export const leaves = (tree: SettingsTree): Leaf[] =>
  Object.entries(tree).flatMap(([name, part]) =>
    isSection(part)
      ? Object.entries(part.settings).map(([key, setting]) => leafOf(`${name}.${key}`, setting))
      : [leafOf(name, part)],
  );

function leafOf(path: string, { doc, fallback, isSecret, isLive, schema }: Setting): Leaf {
  const kind = Array.isArray(fallback) ? "list" : (typeof fallback as "string" | "number" | "boolean");
  const env = `VERK_${path.replaceAll(".", "__").toUpperCase()}`;
  return { path, env, doc, kind, fallback: fallback as TomlValue, secret: isSecret, live: isLive, schema };
}

export const sections = (tree: SettingsTree): string[] =>
  Object.entries(tree).flatMap(([name, part]) => (isSection(part) ? [name] : []));

const isSection = (part: Setting | Section): part is Section => "settings" in part;

/** A value from the environment or the command line, read by the kind of the setting. Undefined: not readable so. */
export function readText(text: string, kind: Leaf["kind"]): TomlValue | undefined {
  if (kind === "string") return text;
  if (kind === "number")
    return /^[+-]?\d[\d_]*(\.\d+)?$/.test(text.trim()) ? Number(text.replaceAll("_", "")) : undefined;
  if (kind === "boolean")
    return { true: true, "1": true, yes: true, false: false, "0": false, no: false }[text.trim().toLowerCase()];
  if (text.trim() === "") return [];
  return text.split(",").map((part) => part.trim());
}

/** The commented file: a copy changes nothing until a line loses its `#`, so an upgrade may improve a default. */
export function renderToml(tree: SettingsTree): string {
  const lines: string[] = [];
  let current = "";
  for (const leaf of leaves(tree)) {
    const [section = "", key = ""] = leaf.path.includes(".") ? leaf.path.split(".") : ["", leaf.path];
    if (section !== current) {
      const doc = tree[section]?.doc;
      lines.push("", ...(doc ? [`# ${doc}`] : []), `[${section}]`);
      current = section;
    }
    lines.push(`# ${leaf.doc}`, `#${key} = ${leaf.secret ? '""' : tomlValue(leaf.fallback)}`);
  }
  return `${lines.join("\n")}\n`;
}
