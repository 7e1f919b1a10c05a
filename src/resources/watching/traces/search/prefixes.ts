/**
 * Searches for the beginning of a word. FTS5 would read the lists of all words with the prefix whole, over all traces,
 * in one step. Instead, the words themselves are looked up first. If they are many, the prefix is common: then the texts
 * of the newest traces are searched one by one.
 */
import { Database } from "bun:sqlite";
import { type Db, prepared } from "../../../../platform/db/db.ts";

const MOST_WORDS = 64; // each one costs about 0.1 ms in every window

/** The words that a prefix stands for, after the words `before` it in its phrase. */
export type Prefix = { before: string; words: string[] };

const nextWord = prepared((db: Db) =>
  db.$client.prepare<{ term: string }, [string, string]>(
    "SELECT term FROM trace_words WHERE term >= ? AND term < ? LIMIT 1",
  ),
);

/** An index in memory, with the words of a text exactly as the full text has them. */
const scratch = prepared((_: Db) => {
  const db = new Database(":memory:");
  db.run("CREATE VIRTUAL TABLE texts USING fts5 (body, content = '')");
  db.run("CREATE VIRTUAL TABLE words USING fts5vocab (texts, instance)");
  return {
    begin: db.prepare("BEGIN"),
    end: db.prepare("ROLLBACK"),
    insert: db.prepare<unknown, [number, string]>("INSERT INTO texts (rowid, body) VALUES (?, ?)"),
    words: db.prepare<{ term: string }, []>('SELECT term FROM words ORDER BY "offset"'),
    match: db.prepare<unknown, [string]>("SELECT rowid FROM texts WHERE texts MATCH ?"),
  };
});

type Scratch = ReturnType<typeof scratch>;

/** Everything that `work` inserts is gone afterwards. */
function within<T>(index: Scratch, work: () => T): T {
  index.begin.run();
  try {
    return work();
  } finally {
    index.end.run();
  }
}

function tokensOf(db: Db, text: string): string[] {
  const index = scratch(db);
  return within(index, () => {
    index.insert.run(1, text);
    return index.words.all().map(({ term }) => term);
  });
}

/** Undefined: the words are too many. */
export function expand(db: Db, prefix: string): Prefix | undefined {
  const tokens = tokensOf(db, prefix);
  const stem = tokens.pop() ?? "";
  const words: string[] = [];
  for (let from = stem; words.length <= MOST_WORDS; ) {
    const next = nextWord(db).get(from, `${stem}\u{10ffff}`);
    if (!next) return { before: tokens.join(" "), words };
    words.push(next.term);
    from = `${next.term}\u0001`; // a word has no such character, so the list of this word is skipped
  }
  return undefined;
}

/** The numbers of the texts that have a word for each of the prefixes. */
export function matchesAmong(db: Db, texts: ReadonlyMap<number, string>, prefixes: readonly string[]): Set<number> {
  const index = scratch(db);
  return within(index, () => {
    for (const [number, text] of texts) index.insert.run(number, text);
    const rows = index.match.values(prefixes.map((each) => `${each} *`).join(" AND "));
    return new Set(rows.map(([number]) => number as number));
  });
}
