/**
 * Checks that a text is one statement that returns rows, so that a mistake is reported before any connection. The
 * servers themselves prevent writes: a read-only transaction, one statement a request, the account's rights. NOT
 * covered: text that a server reads differently from its documentation.
 */
import { SourceError } from "../types.ts";

export type Dialect = "postgres" | "mysql" | "snowflake" | "bigquery";

const PARAM = "/db_query";
const BEGINNINGS = ["select", "with", "values", "table", "from"];

/** Patterns that are skipped without a check inside, in the order in which they are tried. */
const SKIPPED: Record<Dialect, readonly RegExp[]> = {
  postgres: [
    /\s+/y,
    /--[^\n\r]*/y,
    /[eE]'(?:[^'\\]|\\[\s\S]|'')*'/y,
    /'(?:[^']|'')*'/y,
    /"(?:[^"]|"")*"/y,
    /\$([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$[\s\S]*?\$\1\$/y,
  ],
  mysql: [
    /\s+/y,
    /--(?=\s|$)[^\n]*|#[^\n]*/y,
    /\/\*[\s\S]*?\*\//y,
    /'(?:[^'\\]|\\[\s\S]|'')*'/y,
    /"(?:[^"\\]|\\[\s\S]|"")*"/y,
    /`(?:[^`]|``)*`/y,
  ],
  snowflake: [
    /\s+/y,
    /(?:--|\/\/)[^\n\r]*/y,
    /\/\*[\s\S]*?\*\//y,
    /'(?:[^'\\]|\\[\s\S]|'')*'/y,
    /"(?:[^"]|"")*"/y,
    /\$\$[\s\S]*?\$\$/y,
  ],
  bigquery: [
    /\s+/y,
    /(?:--|#)[^\n\r]*/y,
    /\/\*[\s\S]*?\*\//y,
    /("""|''')(?:[^\\]|\\[\s\S])*?\1/y,
    /"(?:[^"\\\n]|\\[\s\S])*"/y,
    /'(?:[^'\\\n]|\\[\s\S])*'/y,
    /`(?:[^`\\]|\\[\s\S])*`/y,
  ],
};
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|\d+/y;
const QUOTES = /['"`]/;

/** Returns the statement without a last semicolon and the text after it. */
export function oneStatement(text: string, dialect: Dialect): string {
  let first: string | undefined;
  let end = text.length;
  let at = 0;
  while (at < text.length) {
    const next = dialect === "postgres" && text.startsWith("/*", at) ? nestedEnd(text, at) : skip(text, at, dialect);
    if (next > at) {
      const quoted = QUOTES.test(text[at]!) || text[at] === "$";
      if (quoted && end < text.length) throw several();
      if (quoted) first ??= "";
      at = next;
      continue;
    }
    if (text[at] === ";") {
      end = Math.min(end, at++);
      continue;
    }
    if (end < text.length) throw several();
    if (QUOTES.test(text[at]!)) throw refused("a quote is never closed");
    const word = match(WORD, text, at);
    if (word || text[at] !== "(") first ??= (word ?? "").toLowerCase(); // brackets may precede SELECT
    at += word?.length ?? 1;
  }
  const statement = text.slice(0, end).trim();
  if (!BEGINNINGS.includes(first ?? "")) throw refused("it must begin with SELECT or WITH, because it may only read");
  return statement;
}

const refused = (why: string) => new SourceError("invalid_source", `db_query cannot be used: ${why}`, PARAM);
const several = () => refused("it contains more than one statement");

function skip(text: string, at: number, dialect: Dialect): number {
  for (const pattern of SKIPPED[dialect]) {
    const skipped = match(pattern, text, at);
    if (skipped) return at + skipped.length;
  }
  return at;
}

function match(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/** Comments of Postgres nest. */
function nestedEnd(text: string, at: number): number {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = at;
  let depth = 0;
  for (let mark = marks.exec(text); mark; mark = marks.exec(text)) {
    depth += mark[0] === "/*" ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  throw refused("a comment is never closed");
}
