/**
 * The full text of captured content: an FTS5 table without content, whose row ids are `traces.seq`. The first words of
 * a text name its workspace and its windows: runs of 128, 1,024 and 8,192 traces. A query for a window must contain its
 * word, so FTS5 leaves the lists of all other words at the end of the window. A range of row ids does not do that:
 * without a match, FTS5 reads on.
 */
import { type Db, prepared, type Tx } from "../../../../platform/db/db.ts";
import type { Prefix } from "./prefixes.ts";

const MAX_TEXT = 65_536; // characters of one trace
const DISTANCE = 100_000; // words: more than a text has
const LEVELS = { x: 13, y: 10, z: 7 } as const; // letter in the word → bits of `seq` inside a window
export const WINDOW_SIZES = { least: 2 ** LEVELS.z, most: 2 ** LEVELS.x };

export type Bounds = { first: number; last: number };
export type Window = Bounds & { word: string };

const statements = prepared((db: Db) => ({
  insert: db.$client.prepare<unknown, [number, string]>("INSERT INTO trace_text (rowid, body) VALUES (?, ?)"),
  remove: db.$client.prepare<unknown, [number]>("DELETE FROM trace_text WHERE rowid = ?"),
  match: db.$client.prepare<unknown, [string]>("SELECT rowid FROM trace_text WHERE trace_text MATCH ?"),
}));

function windowOf(workspaceId: string, seq: number, letter: keyof typeof LEVELS): Window {
  const size = 2 ** LEVELS[letter];
  const number = Math.floor(seq / size);
  const word = `${workspaceId.replace(/^ws_/, "")}${letter}${number}`;
  return { first: number * size, last: (number + 1) * size - 1, word };
}

/** The largest window around a trace that has at most `size` traces. */
export function windowAt(workspaceId: string, seq: number, size: number): Window {
  const letter = size >= 2 ** LEVELS.x ? "x" : size >= 2 ** LEVELS.y ? "y" : "z";
  return windowOf(workspaceId, seq, letter);
}

export const sizeOf = ({ first, last }: Bounds) => last - first + 1;

export function insertText(tx: Tx, seq: number, workspaceId: string, text: string) {
  if (text === "") return;
  const words = (["x", "y", "z"] as const).map((letter) => windowOf(workspaceId, seq, letter).word);
  statements(tx).insert.run(seq, `${words.join(" ")}\n${text}`);
}

export const removeText = (tx: Tx, seq: number) => void statements(tx).remove.run(seq);

/** The text of a trace that a search reads. Empty if nothing was captured. */
export const textOf = ({ input, output }: { input: unknown; output: unknown }): string =>
  input === null && output === null ? "" : textsIn([input, output]).join("\n").slice(0, MAX_TEXT);

/** Every text inside a JSON value. Names of fields are left out. */
function textsIn(value: unknown, texts: string[] = []): string[] {
  if (typeof value === "string") texts.push(value);
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) textsIn(each, texts);
  return texts;
}

/** In the quotes of FTS5. `prefixes` lack their `*`. */
export type TextQuery = { phrases: string[]; prefixes: string[] };

/** Words that must all occur, `"phrases"`, and `prefix*`. Undefined: there is no word in it. */
export function parseQuery(query: string): TextQuery | undefined {
  const terms = (query.match(/"[^"]*"?|\S+/g) ?? []).flatMap((term) => {
    const words = term.replaceAll('"', " ").trim();
    if (!/[\p{L}\p{N}]/u.test(words)) return [];
    return [{ words: `"${words.replace(/\*+$/, "")}"`, isPrefix: words.endsWith("*") }];
  });
  if (terms.length === 0) return undefined;
  const [prefixes = [], phrases = []] = [true, false].map((wanted) =>
    terms.filter(({ isPrefix }) => isPrefix === wanted).map(({ words }) => words),
  );
  return { phrases, prefixes };
}

/** The `seq` of the workspace's traces of a window with all phrases and a word for each prefix. */
export function matchesIn(db: Db, { word }: Window, phrases: readonly string[], prefixes: readonly Prefix[]): number[] {
  const near = (terms: readonly string[]) => `NEAR("${word}" ${terms.join(" ")}, ${DISTANCE})`;
  // A phrase outside NEAR would be looked for beyond the window. A single word is not: it is only compared.
  const alternatives = prefixes.map(({ before, words }) =>
    words.map((each) => (before === "" ? `"${each}"` : near([`"${before} ${each}"`]))).join(" OR "),
  );
  const match = [near(phrases), ...alternatives.map((each) => `(${each})`)].join(" AND ");
  return statements(db)
    .match.values(match)
    .map(([seq]) => seq as number);
}
