/**
 * The full text of captured content: an FTS5 table without content, whose row ids are `traces.seq`. The first word of a
 * text names its workspace and its block of traces. A query for a block must contain that word, so FTS5 leaves the lists
 * of all other words at the end of the block. A range of row ids does not do that: without a match, FTS5 reads on.
 */
import { type Db, prepared, type Tx } from "../../../platform/db/db.ts";

const MAX_TEXT = 65_536; // characters of one trace
const DISTANCE = 100_000; // words: more than a text has
const BLOCK_BITS = 13; // 8,192 traces: a phrase of common words takes about 14 ms on a busy machine

export const blockOf = (seq: number) => Math.floor(seq / 2 ** BLOCK_BITS);

const statements = prepared((db: Db) => {
  const range = "SELECT rowid FROM trace_text WHERE trace_text MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid";
  return {
    insert: db.$client.prepare<unknown, [number, string]>("INSERT INTO trace_text (rowid, body) VALUES (?, ?)"),
    remove: db.$client.prepare<unknown, [number]>("DELETE FROM trace_text WHERE rowid = ?"),
    block: db.$client.prepare<unknown, [string]>("SELECT rowid FROM trace_text WHERE trace_text MATCH ?"),
    newest: db.$client.prepare<unknown, [string, number, number, number]>(`${range} DESC LIMIT ?`),
    oldest: db.$client.prepare<unknown, [string, number, number, number]>(`${range} LIMIT ?`),
  };
});

const wordOf = (workspaceId: string, block: number) => `${workspaceId.replace(/^ws_/, "")}x${block}`;

export function insertText(tx: Tx, seq: number, workspaceId: string, text: string) {
  if (text === "") return;
  statements(tx).insert.run(seq, `${wordOf(workspaceId, blockOf(seq))}\n${text.slice(0, MAX_TEXT)}`);
}

export const removeText = (tx: Tx, seq: number) => void statements(tx).remove.run(seq);

/** Every text inside a JSON value, one line each. Names of fields are left out. */
export function textsIn(value: unknown, texts: string[] = []): string[] {
  if (typeof value === "string") texts.push(value);
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) textsIn(each, texts);
  return texts;
}

/** `hasPrefix`: FTS5 reads the lists of all words with the prefix whole, in every query. */
export type TextQuery = { terms: string; hasPrefix: boolean };

/** Words that must all occur, `"phrases"`, and `prefix*`. Undefined: there is no word in it. */
export function parseQuery(query: string): TextQuery | undefined {
  const terms = (query.match(/"[^"]*"?|\S+/g) ?? []).flatMap((term) => {
    const words = term.replaceAll('"', " ").trim();
    if (!/[\p{L}\p{N}]/u.test(words)) return [];
    return [`"${words.replace(/\*+$/, "")}"${words.endsWith("*") ? " *" : ""}`];
  });
  if (terms.length === 0) return undefined;
  return { terms: terms.join(" "), hasPrefix: terms.some((term) => term.endsWith("*")) };
}

/** The `seq` of the workspace's traces of a block that match. */
export function matchesIn(db: Db, workspaceId: string, { terms }: TextQuery, block: number): number[] {
  const match = `NEAR("${wordOf(workspaceId, block)}" ${terms}, ${DISTANCE})`;
  return statements(db)
    .block.values(match)
    .map(([seq]) => seq as number);
}

export type Bounds = { first: number; last: number };

/** The first matches within bounds, of any workspace, in the order of a page. */
export function matchesBetween(
  db: Db,
  { terms }: TextQuery,
  { first, last }: Bounds,
  order: "newest" | "oldest",
  limit: number,
): number[] {
  return statements(db)
    [order].values(`NEAR(${terms}, ${DISTANCE})`, first, last, limit)
    .map(([seq]) => seq as number);
}
