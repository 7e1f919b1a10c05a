/** Lines that are wrong. Pure. */
export type CodePosition = { line: number; column: number | null };
export type Mark = CodePosition & { message: string };

/** `line 3, column 5` in a message of the sandbox. */
export function placeIn(message: string): CodePosition | undefined {
  const place = /\bline (\d+)(?:,? (?:column|col) (\d+))?/i.exec(message);
  return place ? { line: Number(place[1]), column: place[2] === undefined ? null : Number(place[2]) } : undefined;
}

/** A fault without a line is shown at the first one. */
export function marksOf(fault: string | undefined): Mark[] {
  if (fault === undefined) return [];
  return [{ ...(placeIn(fault) ?? { line: 1, column: null }), message: fault }];
}

const PART =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON takes none of them in a text
  /\s*(?:(?<string>"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(?<plain>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))|(?<sign>[{}[\],:]))/y;

/** The parts that may come next: a value, a name of a field, the colon behind it, or what follows a value. */
type Expected = "value" | "first value" | "name" | "first name" | "colon" | "more";

const MISSING: Readonly<Record<Expected, string>> = {
  value: "a value is missing",
  "first value": "a value or ] is missing",
  name: "a name in double quotes is missing",
  "first name": "a name in double quotes or } is missing",
  colon: "a colon is missing",
  more: "",
};

/** The first place where a text is not JSON. An empty text is right. */
export function jsonMark(text: string): Mark | undefined {
  if (text.trim() === "") return undefined;
  try {
    JSON.parse(text);
    return undefined;
  } catch {
    const { at, message } = faultOf(text) ?? { at: 0, message: "this is not JSON" };
    const lines = text.slice(0, at).split("\n");
    return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1, message };
  }
}

/** The marks of a text with one JSON value on each line. */
export const jsonLineMarks = (text: string): Mark[] =>
  text.split("\n").flatMap((line, i) => {
    const mark = jsonMark(line);
    return mark ? [{ ...mark, line: i + 1 }] : [];
  });

function faultOf(text: string): { at: number; message: string } | undefined {
  const open: ("{" | "[")[] = [];
  let expected: Expected = "value";
  for (let at = 0; ; at = PART.lastIndex) {
    PART.lastIndex = at;
    const part = PART.exec(text)?.groups;
    const start = at + (/^\s*/.exec(text.slice(at))?.[0].length ?? 0);
    const missing = expected === "more" ? missingAfter(open.at(-1)) : MISSING[expected];
    if (!part) {
      const rest = text.slice(start);
      if (rest === "") return expected === "more" && open.length === 0 ? undefined : { at: start, message: missing };
      return { at: start, message: unreadable(rest) };
    }
    const next = after(expected, part, open);
    if (next === undefined) return { at: start, message: missing };
    expected = next;
  }
}

function after(expected: Expected, part: Record<string, string>, open: ("{" | "[")[]): Expected | undefined {
  const { string, sign } = part;
  const isValue = expected === "value" || expected === "first value";
  if (sign === undefined) {
    if (isValue) return "more";
    return string !== undefined && (expected === "name" || expected === "first name") ? "colon" : undefined;
  }
  if (isValue && (sign === "{" || sign === "[")) {
    open.push(sign);
    return sign === "{" ? "first name" : "first value";
  }
  if (sign === ":") return expected === "colon" ? "value" : undefined;
  const holder = open.at(-1);
  if (sign === ",") return expected === "more" && holder ? (holder === "{" ? "name" : "value") : undefined;
  const isEnd = (sign === "}" && holder === "{") || (sign === "]" && holder === "[");
  const mayEnd = expected === "more" || expected === (holder === "{" ? "first name" : "first value");
  if (!isEnd || !mayEnd) return undefined;
  open.pop();
  return "more";
}

const missingAfter = (holder: "{" | "[" | undefined): string =>
  holder === undefined ? "the text must end here" : `a comma or ${holder === "{" ? "}" : "]"} is missing`;

function unreadable(rest: string): string {
  if (rest.startsWith('"'))
    return "the text in quotes does not end, or has a \\ or a line break that JSON does not allow";
  if (rest.startsWith("'")) return "JSON takes double quotes";
  const word = /^[\w.+-]+/.exec(rest)?.[0] ?? rest.slice(0, 1);
  return `${word.slice(0, 30)} is not JSON`;
}
