/** The full text of captured content: an FTS5 table without content, whose row ids are `traces.seq`. */
import { type Db, prepared, type Tx } from "../../platform/db/db.ts";

const MAX_TEXT = 65_536; // characters of one trace
/** A search finds the newest of its matches, at most this many. */
export const MAX_MATCHES = 10_000;

const statements = prepared((db: Db) => ({
  insert: db.$client.prepare<unknown, [number, string, string]>(
    "INSERT INTO trace_text (rowid, workspace, body) VALUES (?, ?, ?)",
  ),
  remove: db.$client.prepare<unknown, [number]>("DELETE FROM trace_text WHERE rowid = ?"),
  match: db.$client.prepare<{ rowid: number }, [string, number]>(
    "SELECT rowid FROM trace_text WHERE trace_text MATCH ? ORDER BY rowid DESC LIMIT ?",
  ),
}));

/** One word of the index: without `ws_`, which every row would share. */
const tokenOf = (workspaceId: string) => workspaceId.replace(/^ws_/, "");

export function insertText(tx: Tx, seq: number, workspaceId: string, text: string) {
  if (text !== "") statements(tx).insert.run(seq, tokenOf(workspaceId), text.slice(0, MAX_TEXT));
}

export const removeText = (tx: Tx, seq: number) => void statements(tx).remove.run(seq);

/** Every text inside a JSON value, one line each. Names of fields are left out. */
export function textsIn(value: unknown, texts: string[] = []): string[] {
  if (typeof value === "string") texts.push(value);
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) textsIn(each, texts);
  return texts;
}

/** Words that must all occur, `"phrases"`, and `prefix*`. Undefined: there is no word in it. */
export function toMatch(query: string): string | undefined {
  const terms = (query.match(/"[^"]*"?|\S+/g) ?? []).flatMap((term) => {
    const words = term.replaceAll('"', " ").trim();
    if (!/[\p{L}\p{N}]/u.test(words)) return [];
    return [`"${words.replace(/\*+$/, "")}"${words.endsWith("*") ? " *" : ""}`];
  });
  return terms.length === 0 ? undefined : `body : (${terms.join(" AND ")})`;
}

/** The `seq` of the newest traces of the workspace that match. */
export function search(db: Db, workspaceId: string, query: string): number[] {
  const match = toMatch(query);
  if (match === undefined) return [];
  const within = `workspace : "${tokenOf(workspaceId)}" AND ${match}`;
  return statements(db)
    .match.all(within, MAX_MATCHES)
    .map(({ rowid }) => rowid);
}
