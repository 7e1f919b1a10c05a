/** Reads a file of settings: YAML, TOML or JSON, by its name. Errors name the file and the line. */

import { UsageError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json/object.ts";
import { parseYaml } from "../../lib/text/yaml.ts";

type Values = Record<string, unknown>;
type Format = { name: string; parse: (text: string) => unknown };

const YAML: Format = { name: "YAML", parse: parseYaml };
const TOML: Format = { name: "TOML", parse: Bun.TOML.parse };
const JSON_FORMAT: Format = { name: "JSON", parse: JSON.parse };

/** A file of another name, or standard input, is JSON if it begins with a brace, else YAML. */
function formatOf(file: string, text: string): Format {
  if (/\.ya?ml$/i.test(file)) return YAML;
  if (/\.toml$/i.test(file)) return TOML;
  if (/\.json$/i.test(file)) return JSON_FORMAT;
  return /^\s*\{/.test(text) ? JSON_FORMAT : YAML;
}

export function parseSettings(file: string, text: string): Values {
  const format = formatOf(file, text);
  let value: unknown;
  try {
    value = format.parse(text);
  } catch (error) {
    const why = (error as Error).message.replace(/^\w+ Parse error: /, "");
    throw new UsageError(`${file}:${brokenLine(text, format)}: this is not valid ${format.name}: ${why}`);
  }
  const twice = format === YAML ? repeatedKey(text) : undefined;
  if (twice) throw new UsageError(`${file}:${twice.line}: ${twice.key} is there twice. Remove one of them.`);
  if (isObject(value)) return value as Values;
  const example = format === TOML ? 'base_model = "verk-tiny"' : "base_model: verk-tiny";
  throw new UsageError(`${file} must contain one set of names and values, such as ${example}`);
}

/** The line of a setting. Of several with the name, the first. */
export function lineOf(text: string, name: string): number | undefined {
  const escaped = name.replaceAll(/[^\w]/g, "\\$&");
  const at = text.split("\n").findIndex((line) => new RegExp(`^[\\s{,-]*["']?${escaped}["']?\\s*[:=]`).test(line));
  return at < 0 ? undefined : at + 1;
}

const MOST_LINES = 2_000; // each line is one more try to parse

/** The line after the longest beginning of the file that is valid. */
function brokenLine(text: string, { name, parse }: Format): number {
  const lines = text.split("\n");
  if (name === "JSON") return brokenJsonLine(text);
  for (let n = Math.min(lines.length - 1, MOST_LINES); n > 0; n--)
    if (parses(parse, lines.slice(0, n).join("\n"))) return n + 1;
  return 1;
}

function parses(parse: Format["parse"], text: string): boolean {
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The line after the longest beginning that is valid once its open brackets are closed. */
function brokenJsonLine(text: string): number {
  const lines = text.split("\n");
  for (let n = Math.min(lines.length, MOST_LINES); n > 0; n--) {
    const start = lines
      .slice(0, n - 1)
      .join("\n")
      .trimEnd()
      .replace(/,$/, "");
    if (parses(JSON.parse, start + closingOf(start))) return n;
  }
  return 1;
}

/** The brackets that are open at the end of a text, closed. */
function closingOf(text: string): string {
  const open: string[] = [];
  for (const [char] of text.matchAll(/"(?:\\.|[^"\\])*"|[[\]{}]/g)) {
    if (char === "{") open.push("}");
    else if (char === "[") open.push("]");
    else if (char === "}" || char === "]") open.pop();
  }
  return open.toReversed().join("");
}

/** A name at the beginning of two lines. The YAML parser would take the last one. */
function repeatedKey(text: string): { key: string; line: number } | undefined {
  const seen = new Set<string>();
  for (const [i, line] of text.split("\n").entries()) {
    const key = /^["']?([\w-]+)["']?\s*:(\s|$)/.exec(line)?.[1];
    if (key === undefined) continue;
    if (seen.has(key)) return { key, line: i + 1 };
    seen.add(key);
  }
  return undefined;
}
