import { z } from "zod";
import { type TomlValue, tomlValue } from "./toml.ts";

/** Reading a tree of settings: its leaves, the environment names they have, and the commented default file. */

export type Tree = z.ZodObject<z.core.$ZodLooseShape>;
export type Leaf = {
  path: string; // "http.listen"
  env: string; // "VERK_HTTP__LISTEN"
  doc: string;
  kind: "string" | "number" | "boolean" | "list";
  fallback: TomlValue;
  secret: boolean;
};

/** Sections and leaves, in the order they were written. A section has no leaf of its own. */
export function leaves(tree: Tree, prefix = ""): Leaf[] {
  return Object.entries(tree.shape).flatMap(([key, schema]) => {
    const path = prefix + key;
    const section = asSection(schema);
    if (section) return leaves(section, `${path}.`);
    if (!(schema instanceof z.ZodType)) throw new Error(`${path}: not a zod schema`);
    const meta = schema.meta() ?? {};
    const fallback = schema.parse(undefined) as TomlValue;
    return [
      {
        path,
        env: `VERK_${path.replaceAll(".", "__").toUpperCase()}`,
        doc: meta.description ?? "",
        kind: Array.isArray(fallback) ? "list" : (typeof fallback as "string" | "number" | "boolean"),
        fallback,
        secret: meta["secret"] === true,
      },
    ];
  });
}

export const sections = (tree: Tree): string[] =>
  Object.keys(tree.shape).filter((key) => asSection(tree.shape[key]) !== undefined);

function asSection(schema: unknown): Tree | undefined {
  const inner = schema instanceof z.ZodPrefault ? schema.def.innerType : schema;
  return inner instanceof z.ZodObject ? (inner as Tree) : undefined;
}

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
export function renderToml(tree: Tree): string {
  const lines: string[] = [];
  let current = "";
  for (const leaf of leaves(tree)) {
    const [section = "", key = ""] = leaf.path.includes(".") ? leaf.path.split(".") : ["", leaf.path];
    if (section !== current) {
      const schema = tree.shape[section];
      const doc = schema instanceof z.ZodType ? schema.description : undefined;
      lines.push("", ...(doc ? [`# ${doc}`] : []), `[${section}]`);
      current = section;
    }
    lines.push(`# ${leaf.doc}`, `#${key} = ${leaf.secret ? '""' : tomlValue(leaf.fallback)}`);
  }
  return `${lines.join("\n")}\n`;
}
