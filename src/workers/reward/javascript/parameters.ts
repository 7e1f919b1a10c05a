/**
 * Reads from a function's text how it must be called, because JavaScript does not keep parameter names. `completions`
 * in the parameters means all samples at once, `completion` one. For a single undestructured object the body decides.
 */
export type Calling = {
  form: "batch" | "sample";
  /** `object`: the one object with everything in it. Otherwise the name of the value for this parameter. */
  parameters: readonly ({ kind: "object" } | { kind: "name"; name: string; required: boolean })[];
  /** The text as written, at most 1000 characters. */
  text: string;
};

export const FORMS =
  "`export function reward({ prompts, completions, rows })` that returns one number for each completion, where every column" +
  "of the rows is an array beside them, or `export function reward({ prompt, completion, row })` that returns one number";

const MANY = ["completions", "prompts", "rows", "environments"];
const ONE = ["completion", "prompt", "row", "environment"];

/** Returns a string with the message for the user on failure. */
export function callingOf(name: string, text: string): Calling | string {
  const source = withoutComments(text.slice(0, 65_536));
  if (/\{\s*\[native code\]\s*\}\s*$/.test(source))
    return `\`${name}\` is not a function of this file. Write ${FORMS}.`;
  if (/^class\b/.test(source)) return `\`${name}\` is a class. Write ${FORMS}.`;
  const list = parameterList(source);
  if (list === null) return `The parameters of \`${name}\` cannot be read. Write ${FORMS}.`;
  const parts = topLevel(list.inside).filter((part) => part !== "");
  const parameters = parts.map(parameterOf);
  const names = parts.flatMap(namesIn);
  const form = formOf(names, parameters.length === 1 && names.length === 0 ? source.slice(list.end) : "");
  const written = `${name}(${list.inside.replace(/\s+/g, " ").trim()})`.slice(0, 1000);
  if (form === null) return `\`${written}\` takes neither \`completions\` nor \`completion\`. Write ${FORMS}.`;
  if (form === "both") return `\`${written}\` takes one sample and all of them. Write ${FORMS}.`;
  const single = parameters[0];
  if (parameters.length === 1 && single?.kind === "name" && ![...MANY, ...ONE].includes(single.name)) {
    return { form, parameters: [{ kind: "object" }], text: written };
  }
  return { form, parameters, text: written };
}

function formOf(names: string[], body: string): "batch" | "sample" | "both" | null {
  const has = (candidates: string[]): boolean => candidates.some((name) => names.includes(name));
  if (names.includes("completions") || names.includes("environments")) return "batch";
  if (has(MANY)) return has(ONE) ? "both" : "batch";
  if (has(ONE)) return "sample";
  if (/\bcompletions\b/.test(body)) return "batch";
  if (/\bcompletion\b/.test(body)) return "sample";
  return null;
}

export function parameterOf(part: string): Calling["parameters"][number] {
  if (/^(\{|\.\.\.|\[)/.test(part)) return { kind: "object" };
  const name = /^[\p{ID_Start}$_][\p{ID_Continue}$]*/u.exec(part)?.[0] ?? "";
  return { kind: "name", name, required: !part.includes("=") };
}

/** Returns the names that a parameter needs. A single name of the user's own gives none. */
function namesIn(part: string): string[] {
  if (!part.startsWith("{")) {
    const place = parameterOf(part);
    return place.kind === "name" && [...MANY, ...ONE].includes(place.name) ? [place.name] : [];
  }
  const end = closing(part, 0);
  return topLevel(part.slice(1, end === -1 ? part.length : end))
    .filter((key) => key !== "" && !key.startsWith("..."))
    .map((key) => /^["']?([\p{ID_Start}$_][\p{ID_Continue}$]*)/u.exec(key)?.[1] ?? "");
}

function parameterList(source: string): { inside: string; end: number } | null {
  const bare = /^(?:async\s+)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*=>/u.exec(source);
  if (bare !== null && bare[1] !== "async") return { inside: bare[1]!, end: bare[0].length };
  const open = source.indexOf("(");
  const end = open === -1 ? -1 : closing(source, open);
  return end === -1 ? null : { inside: source.slice(open + 1, end), end: end + 1 };
}

export function topLevel(text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const after = skipped(text, at);
    if (after > at) at = after - 1;
    else if (text[at] === ",") {
      parts.push(text.slice(from, at).trim());
      from = at + 1;
    }
  }
  parts.push(text.slice(from).trim());
  return parts;
}

/** Returns the position where the bracket at `open` closes, or -1. */
export function closing(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    const char = text[at]!;
    if ("\"'`".includes(char)) at = endOfString(text, at);
    else if ("([{".includes(char)) depth++;
    else if (")]}".includes(char) && --depth === 0) return at;
  }
  return -1;
}

/** Returns the position after the bracket or the string that begins here, or the same position. */
function skipped(text: string, at: number): number {
  const char = text[at]!;
  if ("\"'`".includes(char)) return endOfString(text, at) + 1;
  if (!"([{".includes(char)) return at;
  const end = closing(text, at);
  return end === -1 ? text.length : end + 1;
}

function endOfString(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === text[open]) return at;
  }
  return text.length;
}

/** Removes comments before and among the parameters. A parameter with `//` in a string loses the rest of its line. */
const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\/|(?<![:"'`\\])\/\/[^\n]*/g, " ").trim();
