/** A search reads traces block by block. Its pages must be those of one look at all traces. */
import { afterEach, expect, test } from "bun:test";
import { manyApps, type TestApp } from "../../../../test/harness.ts";
import { newId } from "../../../lib/ids.ts";
import { flush } from "../flush.ts";
import type { TraceFilter } from "../schema.ts";
import * as traces from "../service.ts";
import type { Position } from "./conditions.ts";
import { search } from "./search.ts";
import { blockOf } from "./text.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const WORDS = ["red", "reed", "blue", "green", "old"];
const NEW_BLOCK = 2 ** 13;
type Stored = { id: string; seq: number; text: string; status: number; conversation: string };

/** Traces of two workspaces in several blocks; the result has those of the first one, newest first. */
function fill(app: TestApp): Stored[] {
  const stored: Stored[] = [];
  const { $client } = app.ctx.db;
  const seqOf = (id: string) => $client.query<{ seq: number }, [string]>("SELECT seq FROM traces WHERE id = ?").get(id);
  for (let i = 0; i < 120; i++) {
    const text = Array.from({ length: 1 + (i % 4) }, (_, k) => WORDS[(i * i + k * (1 + (i % 3))) % WORDS.length]).join(
      " ",
    );
    const [id, status, conversation] = [newId("trc"), i % 7 === 0 ? 500 : 200, `talk-${i % 9}`];
    const workspaceId = i % 5 === 0 ? app.workspaceB : app.workspaceA;
    const base = { id, workspaceId, source: "chat", capture: "full", status, startedAt: 1, durationMs: 1 } as const;
    const content = () => ({ input: text, output: null });
    traces.record(app.ctx, { ...base, spans: [], conversationId: conversation, content });
    flush(app.ctx);
    if (i % 30 === 29) $client.run(`UPDATE traces SET seq = seq + ${NEW_BLOCK} WHERE id = '${newTrace(app)}'`);
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
  const words = text.split(" ");
  if (term.endsWith("*")) return words.some((word) => word.startsWith(term.slice(0, -1)));
  return ` ${text} `.includes(` ${term.replaceAll('"', "")} `);
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
];
const OTHERS: Omit<TraceFilter, "q">[] = [{}, { status: "error" }, { status: "ok" }, { conversation_id: "talk-2" }];

test("pages of a search are complete, in order and without duplicates, also if each ends at its deadline", async () => {
  const app = open();
  const { db } = app.ctx;
  const stored = fill(app);
  expect(new Set(stored.map(({ seq }) => blockOf(seq))).size).toBeGreaterThan(3);
  for (const q of QUERIES)
    for (const other of OTHERS) {
      const matches = stored.filter(
        ({ text, status, conversation }) =>
          (q.match(/"[^"]*"|\S+/g) ?? []).every((term) => has(text, term)) &&
          (other.status === undefined || (other.status === "ok") === status < 400) &&
          (other.conversation_id === undefined || other.conversation_id === conversation),
      );
      for (const order of ["newest", "oldest"] as const)
        for (const [limit, until] of [
          [3, undefined],
          [100, 0],
        ] as const) {
          const found: number[] = [];
          for (let after: Position | undefined; ; ) {
            const { page, isOver } = await search(db, app.workspaceA, { q, ...other }, { order, after, limit }, until);
            found.push(...page.map(({ seq }) => seq));
            if (isOver && page.length < limit) break;
            expect(page).not.toBeEmpty();
            after = page.at(-1);
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
