/** A list is found in slices, a search in windows. Its pages must be those of one look at all traces. */
import { afterEach, expect, test } from "bun:test";
import { manyApps, type TestApp } from "../../../../../test/harness.ts";
import { newId } from "../../../../lib/ids.ts";
import { flush } from "../flush.ts";
import type { TraceFilter } from "../schema.ts";
import * as traces from "../service.ts";
import { cursorOf, type Position, positionOf } from "./positions.ts";
import { search } from "./search.ts";
import { collect, nextSize } from "./slices.ts";
import { windowAt } from "./text.ts";
import { walk } from "./walk.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const WORDS = ["red", "reed", "blue", "green", "old"];
const GAP = 1_500; // traces: larger than the smaller windows
type Stored = { id: string; seq: number; text: string; status: number; conversation: string };

/** Traces of two workspaces in several windows; the result has those of the first one, newest first. */
function fill(app: TestApp): Stored[] {
  const stored: Stored[] = [];
  const { $client } = app.ctx.db;
  const seqOf = (id: string) => $client.query<{ seq: number }, [string]>("SELECT seq FROM traces WHERE id = ?").get(id);
  for (let i = 0; i < 120; i++) {
    const words = Array.from({ length: 1 + (i % 4) }, (_, k) => WORDS[(i * i + k * (1 + (i % 3))) % WORDS.length]);
    const text = [...words, ...(i % 4 === 0 ? [] : [`w${i}`])].join(" ");
    const [id, status, conversation] = [newId("trc"), i % 7 === 0 ? 500 : 200, `talk-${i % 9}`];
    const workspaceId = i % 5 === 0 ? app.workspaceB : app.workspaceA;
    const base = { id, workspaceId, source: "chat", capture: "full", status, startedAt: 1, durationMs: 1 } as const;
    const content = () => ({ input: text, output: null });
    traces.record(app.ctx, { ...base, spans: [], conversationId: conversation, content });
    flush(app.ctx);
    if (i % 30 === 29) $client.run(`UPDATE traces SET seq = seq + ${GAP} WHERE id = '${newTrace(app)}'`);
    if (workspaceId === app.workspaceA) stored.unshift({ id, seq: seqOf(id)?.seq ?? 0, text, status, conversation });
  }
  return stored;
}

/** Without content, in the other workspace: its `seq` may change. */
function newTrace(app: TestApp): string {
  const id = newId("trc");
  const base = { id, workspaceId: app.workspaceB, source: "chat", capture: "none", status: 200 } as const;
  traces.record(app.ctx, { ...base, startedAt: 1, durationMs: 1, spans: [] });
  flush(app.ctx);
  return id;
}

const has = (text: string, term: string) => {
  const plain = term.replaceAll('"', "");
  if (plain.endsWith("*")) return ` ${text}`.includes(` ${plain.slice(0, -1)}`);
  return ` ${text} `.includes(` ${plain} `);
};

const QUERIES = [
  "red",
  "reed blue",
  "re*",
  "old re*",
  '"red blue"',
  '"green old" red',
  '"blue red green"',
  "none",
  "x*",
  '"red gre*"',
  "w*", // more words than are looked up
  "w* red",
  '"blue w*" re*',
];
const OTHERS: Omit<TraceFilter, "q">[] = [{}, { status: "error" }, { status: "ok" }, { conversation_id: "talk-2" }];

const ALL = { order: "newest", after: undefined, limit: 200 } as const;
const ALWAYS = [9, undefined] as const;
const AT_DEADLINE = [100, 0] as const;

test("pages of a search are complete, in order and without duplicates, also if each ends at its deadline", async () => {
  const app = open();
  const { db } = app.ctx;
  const stored = fill(app);
  expect(new Set(stored.map(({ seq }) => windowAt("", seq, 1_024).word)).size).toBeGreaterThan(3);
  for (const q of QUERIES)
    for (const other of OTHERS) {
      const matches = stored.filter(
        ({ text, status, conversation }) =>
          (q.match(/"[^"]*"|\S+/g) ?? []).every((term) => has(text, term)) &&
          (other.status === undefined || (other.status === "ok") === status < 400) &&
          (other.conversation_id === undefined || other.conversation_id === conversation),
      );
      for (const order of ["newest", "oldest"] as const)
        for (const [limit, until] of other === OTHERS[0] && order === "newest" ? [ALWAYS, AT_DEADLINE] : [ALWAYS]) {
          const found: number[] = [];
          for (let after: Position | undefined; ; ) {
            const steps = search(db, app.workspaceA, { q, ...other }, { order, after, limit });
            const { page, next } = await collect(steps, limit, until);
            found.push(...page.map(({ seq }) => seq));
            if (!next) break;
            after = positionOf(db, cursorOf(next));
          }
          const expected = matches.map(({ seq }) => seq);
          if (order === "oldest") expected.reverse();
          expect([q, other, order, found]).toEqual([q, other, order, expected]);
        }
    }
});

test("a search pages by the last id, and its export is the same, oldest first", async () => {
  const app = open();
  const ids = fill(app)
    .filter(({ text }) => has(text, "red"))
    .map(({ id }) => id);
  const pages: string[] = [];
  for (let after = ""; ; ) {
    const { body } = await app.call("GET", `/v1/traces?limit=4&q=red${after}`);
    pages.push(...body.data.map(({ id }: { id: string }) => id));
    if (!body.has_more) break;
    after = `&after=${pages.at(-1)}`;
  }
  expect(pages).toEqual(ids);
  const lines = (await app.call("GET", "/v1/traces/export?q=red")).body as string;
  const exported = lines.trim().split("\n");
  expect(exported.map((line) => JSON.parse(line).id)).toEqual([...ids].reverse());
});

test("a list ends at its deadline with a place to go on, also without a trace; nothing is lost or repeated", async () => {
  const app = open();
  const { db } = app.ctx;
  const stored = fill(app);
  for (const filter of [{ status: 500 }, { status: "ok" }, { min_duration_ms: 0, source: "chat" }] as TraceFilter[]) {
    const found: string[] = [];
    for (let after: string | undefined; ; ) {
      const page = await traces.list(app.ctx, app.workspaceA, { limit: 50, after, ...filter });
      found.push(...page.data.map(({ id }) => id));
      expect(page.next_after === null).toBe(!page.has_more);
      if (page.next_after === null) break;
      after = page.next_after;
    }
    const passes = ({ status }: Stored) =>
      filter.status === undefined || (filter.status === "ok" ? status < 400 : status === filter.status);
    expect(found).toEqual(stored.filter(passes).map(({ id }) => id));
  }
  const steps = search(db, app.workspaceA, { q: '"old red blue"' }, { order: "newest", after: undefined, limit: 20 });
  expect(await collect(steps, 20, 0)).toMatchObject({ page: [], next: { seq: expect.any(Number) } });
});

test("a filter that no trace passes is walked in slices, and ends with an empty page", async () => {
  const app = open();
  const { db } = app.ctx;
  fill(app);
  db.$client.run(`INSERT INTO traces (id, workspace_id, source, capture, status, started_at, duration_ms, prompt_tokens,
      cached_tokens, completion_tokens, created_at, metadata, spans)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
    SELECT printf('trc_%026d', i), '${app.workspaceA}', 'chat', 'none', 500, 0, i, 0, 0, 0,
      (SELECT max(created_at) FROM traces) + i, '{}', '[]' FROM n`);
  const filter: TraceFilter = { status: "ok" };
  const pages: number[] = [];
  const seqs: number[] = [];
  for (let after: Position | undefined; ; ) {
    const steps = walk(db, app.workspaceA, filter, { order: "newest", after, limit: 100 });
    const { page, next } = await collect(steps, 100, 0);
    pages.push(page.length);
    seqs.push(...page.map(({ seq }) => seq));
    if (!next) break;
    after = positionOf(db, cursorOf(next));
  }
  expect(pages.slice(0, 3)).toEqual([0, 0, 0]); // a thousand rows each
  expect(seqs).toEqual((await collect(walk(db, app.workspaceA, filter, ALL), 200)).page.map(({ seq }) => seq));
  expect(seqs.length).toBeGreaterThan(50);
  const { body } = await app.call("GET", "/v1/traces?status=ok&limit=1&after=at-zz");
  expect(body.error.code).toBe("invalid_cursor");
});

test("the size of a slice follows the time of the last one, within bounds and without jumps", () => {
  const sizes = { least: 100, most: 10_000 };
  expect(nextSize(1_000, 4, sizes)).toBe(1_000);
  expect(nextSize(1_000, 8, sizes)).toBe(500);
  expect(nextSize(1_000, 1_000, sizes)).toBe(125);
  expect(nextSize(1_000, 0.001, sizes)).toBe(8_000);
  expect([nextSize(100, 99, sizes), nextSize(9_000, 0, sizes)]).toEqual([100, 10_000]);
});
