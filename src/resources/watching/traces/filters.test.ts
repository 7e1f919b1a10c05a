/** Filters, pages, full text, export, retention, and spans of other programs. No process starts. */
import { afterEach, describe, expect, test } from "bun:test";
import { fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { insert } from "../../../../test/insert_row.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { countRows } from "../../../../test/row_counter.ts";
import { newId } from "../../../lib/ids.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { flush } from "./flush.ts";
import type { NewTrace } from "./new_trace.ts";
import { prune } from "./prune.ts";
import { storeRollouts } from "./rollouts.ts";
import { parseQuery } from "./search/text.ts";
import * as traces from "./service.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const say = (input: string, output = "ok") => ({
  capture: "full" as const,
  content: () => ({ input, output: [output] }),
});

/** Records a trace and gives its id. */
function add(app: TestApp, more: Partial<NewTrace> = {}): string {
  const base = { workspaceId: app.workspaceA, source: "chat" as const, capture: "none" as const, status: 200 };
  const times = { startedAt: app.ctx.clock.now(), durationMs: 10, spans: [] };
  const id = newId("trc", app.ctx.clock.now());
  traces.record(app.ctx, { ...base, ...times, id, ...more });
  flush(app.ctx);
  return id;
}

const found = async (app: TestApp, query: string, key = app.keyA): Promise<string[]> => {
  const { status, body } = await app.call("GET", `/v1/traces?${query}`, undefined, { key });
  expect(status).toBe(200);
  return body.data.map(({ id }: { id: string }) => id);
};

describe("filters", () => {
  test("each one alone, and all together", async () => {
    const clock = fakeClock();
    const app = open({ clock });
    const tick = () => clock.advance(1_000);
    const a = add(app, { deploymentId: "dep_a", keyId: "key_1", durationMs: 5 });
    tick();
    const b = add(app, { deploymentId: "dep_b", keyId: "key_1", status: 429, errorCode: "queue_full", durationMs: 50 });
    const half = new Date(clock.now()).toISOString();
    tick();
    const c = add(app, { deploymentId: "dep_a", keyId: "key_2", status: 499, durationMs: 500, source: "embedding" });
    add(app, { workspaceId: app.workspaceB, deploymentId: "dep_a", status: 500 });
    const cases: [string, string[]][] = [
      ["", [c, b, a]],
      ["deployment_id=dep_a", [c, a]],
      ["key_id=key_1", [b, a]],
      ["status=ok", [a]],
      ["status=error", [c, b]],
      ["status=200", [a]],
      ["status=429", [b]],
      ["source=embedding", [c]],
      ["source=chat", [b, a]],
      ["min_duration_ms=50", [c, b]],
      ["max_duration_ms=50", [b, a]],
      ["min_duration_ms=6&max_duration_ms=60", [b]],
      [`since=${half}`, [c, b]],
      [`until=${half}`, [a]],
      ["deployment_id=dep_a&status=error&min_duration_ms=1&key_id=key_2&source=embedding", [c]],
      ["deployment_id=dep_a&key_id=key_1&status=error", []],
    ];
    for (const [query, expected] of cases) expect([query, await found(app, query)]).toEqual([query, expected]);
    expect(await found(app, "status=error", app.keyB)).toHaveLength(1);
    for (const query of ["status=x", "since=yesterday", "min_duration_ms=-1", "min_duration_ms=%20", "source=none"])
      expect((await app.call("GET", `/v1/traces?${query}`)).status).toBe(422);
  });

  test("pages follow each other without a gap, also under a filter that does not choose the index", async () => {
    const app = open();
    const ids = Array.from({ length: 7 }, (_, i) => add(app, { durationMs: i, deploymentId: "dep_a" })).reverse();
    for (const filter of ["", "deployment_id=dep_a", "min_duration_ms=0", "status=ok"]) {
      const pages: string[] = [];
      for (let after = ""; ; ) {
        const { body } = await app.call("GET", `/v1/traces?limit=3&${filter}${after}`);
        pages.push(...body.data.map(({ id }: { id: string }) => id));
        if (!body.has_more) break;
        after = `&after=${pages.at(-1)}`;
      }
      expect(pages).toEqual(ids);
    }
  });

  test("full text finds words, phrases and beginnings of words in the own workspace only", async () => {
    const app = open();
    const a = add(app, say("Where is my refund?", "It was paid yesterday"));
    const b = add(app, say("refund policy", "thirty days"));
    add(app, { ...say("refund"), workspaceId: app.workspaceB });
    add(app, { ...say("refund"), capture: "metadata" });
    expect(await found(app, "q=refund")).toEqual([b, a]);
    expect(await found(app, "q=REFUND+paid")).toEqual([a]);
    expect(await found(app, `q=${encodeURIComponent('"refund policy"')}`)).toEqual([b]);
    expect(await found(app, "q=thir*")).toEqual([b]);
    expect(await found(app, "q=thir")).toEqual([]);
    expect(await found(app, `q=${encodeURIComponent('" OR body:x* NEAR( ^')}`)).toEqual([]); // no syntax error
    expect(await found(app, "q=%2B%2B")).toEqual([]);
    expect(parseQuery('a "b c" d*')).toEqual({ phrases: ['"a"', '"b c"'], prefixes: ['"d"'] });
  });
});

test("D14 filters: a range or a score that many traces match is read by time, one that few match is looked up", async () => {
  const counting = countRows();
  using _ = { [Symbol.dispose]: counting.stop };
  const app = open();
  const { $client } = app.ctx.db;
  const first = add(app, { durationMs: 500 });
  $client.run(`INSERT INTO traces (id, workspace_id, source, capture, status, started_at, duration_ms, prompt_tokens,
      cached_tokens, completion_tokens, created_at, metadata, spans)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
    SELECT printf('trc_%026d', i), '${app.workspaceA}', 'chat', 'none', 200, 0, i, 0, 0, 0, i, '{}', '[]' FROM n`);
  const score = `INSERT INTO trace_scores (id, workspace_id, trace_id, trace_seq, trace_at, name, kind, value, source,
    created_at) SELECT`;
  $client.run(
    `${score} 'a' || seq, workspace_id, id, seq, created_at, 'good', 'number', seq % 2, 'code', 0 FROM traces`,
  );
  $client.run(`${score} 'b' || seq, workspace_id, id, seq, created_at, 'good', 'number', 3, 'code', 0 FROM traces
    WHERE seq > 5990`);
  const id = (i: number) => `trc_${String(i).padStart(26, "0")}`;
  const cases: [filter: string, index: string, expected: string[]][] = [
    ["min_duration_ms=1&status=ok", "indexed by traces_newest", [first, id(6_000), id(5_999), id(5_998)]],
    ["max_duration_ms=9&status=ok", "indexed by traces_duration", [id(9), id(8), id(7), id(6)]],
    ["score=good", "indexed by trace_scores_newest", [first, id(6_000), id(5_999), id(5_998)]],
    ["score=good&min_score=0&max_score=3&status=ok", "indexed by trace_scores_newest", [first, id(6_000)]],
    ["score=good&min_score=2", "INDEXED BY trace_scores_value", [id(6_000), id(5_999), id(5_998)]],
    ["score=good&max_score=0", "INDEXED BY trace_scores_value", [id(5_999), id(5_997), id(5_995)]],
  ];
  for (const [filter, index, expected] of cases) {
    const limit = Math.ceil(expected.length / 2);
    const page = (after = "") => app.call("GET", `/v1/traces?limit=${limit}&${filter}${after}`);
    let pages: string[] = [];
    const { sql } = await counting.of(async () => {
      const { body } = await page();
      const next = await page(`&after=${body.data.at(-1).id}`);
      pages = [...body.data, ...next.body.data].map((each: { id: string }) => each.id);
    });
    expect([filter, pages.slice(0, expected.length)]).toEqual([filter, expected]);
    expect([filter, sql.some((text) => text.includes(index) && text.includes("order by"))]).toEqual([filter, true]);
  }
  const lines = (await app.call("GET", "/v1/traces/export?score=good&min_score=0")).body as string;
  expect(lines.trim().split("\n")).toHaveLength(6_001);
});

test("export: JSON lines, oldest first, with content and scores, under the same filters", async () => {
  const app = open();
  const ids = Array.from({ length: 3 }, (_, i) => add(app, { ...say(`question ${i}`), status: i === 1 ? 500 : 200 }));
  await app.call("POST", `/v1/traces/${ids[0]}/scores`, { name: "good", value: true });
  const { body, headers } = await app.call("GET", "/v1/traces/export?status=ok");
  expect(headers.get("content-type")).toStartWith("application/x-ndjson");
  const lines = (body as string)
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.map(({ id, input }) => [id, input])).toEqual([
    [ids[0], "question 0"],
    [ids[2], "question 2"],
  ]);
  expect(lines[0].scores).toMatchObject([{ name: "good", value: true }]);
  expect((await app.call("GET", "/v1/traces/export", undefined, { key: app.keyB })).body).toBe("");
});

test("a full buffer drops traces and counts them; the request sees nothing", () => {
  const app = open();
  const trace = { workspaceId: app.workspaceA, source: "chat", capture: "full", status: 200, startedAt: 1 } as const;
  const add = (workspaceId: string, bytes: number) =>
    traces.record(app.ctx, { ...trace, workspaceId, durationMs: 1, spans: [], bytes });
  for (let i = 0; i < 3; i++) add(app.workspaceA, 20 * 1024 * 1024);
  expect(app.ctx.state.traces.buffer.size).toBe(1); // a workspace has half of it
  for (let i = 0; i < 3; i++) add(app.workspaceB, 20 * 1024 * 1024);
  expect(app.ctx.state.traces.buffer.size).toBe(2);
  add("ws_third", 25 * 1024 * 1024);
  expect(app.ctx.state.traces.buffer.size).toBe(2); // all together have no more
});

test("content that cannot be read loses its trace, and no other", async () => {
  const app = open();
  const broken = (): never => {
    throw new Error("broken");
  };
  const base = { workspaceId: app.workspaceA, source: "chat", capture: "full", status: 200, startedAt: 1 } as const;
  traces.record(app.ctx, { ...base, durationMs: 1, spans: [], content: broken });
  traces.record(app.ctx, { ...base, durationMs: 2, spans: [] });
  flush(app.ctx);
  const { data } = await traces.list(app.ctx, app.workspaceA, { limit: 9 });
  expect(data.map((each) => each.duration_ms)).toEqual([2]);
});

test("retention: each deployment its own, outside traces by the setting; text, scores and conversations go too", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "traces.retention_days": 10 } });
  const { db } = app.ctx;
  const row = { ...deploymentRow(clock.now(), app.workspaceA, null), captureRetentionDays: 3 };
  write(db, (tx) => tx.insert(deployments).values(row).run());
  const old = add(app, { ...say("ancient words"), deploymentId: row.id, conversationId: "talk" });
  await app.call("POST", `/v1/traces/${old}/scores`, { name: "good", value: 1 });
  const outside = add(app, { ...say("outside words"), source: "otlp" });
  clock.advance(4 * DAY_MS);
  const young = add(app, { deploymentId: row.id });
  await prune(app.ctx);
  expect(await found(app, "")).toEqual([young, outside]);
  expect(await found(app, "q=words")).toEqual([outside]);
  expect(db.$client.query("SELECT count(*) AS n FROM trace_scores").get()).toEqual({ n: 0 });
  expect((await app.call("GET", "/v1/traces/conversations")).body.data).toEqual([]);
  clock.advance(7 * DAY_MS);
  await prune(app.ctx);
  expect(await found(app, "")).toEqual([]);
});

test("rollouts: a step that is reported twice is stored once, with its reward as a score", async () => {
  const app = open();
  const sample = { prompt: "2 + 2", completion: "4", reward: 1, tokens: 1, truncated: false, error: null };
  const store = (samples: (typeof sample)[]) =>
    write(app.ctx.db, (tx) =>
      storeRollouts(app.ctx, tx, { workspaceId: app.workspaceA, jobId: "job_1", step: 3, model: "tiny", samples }),
    );
  store([sample, sample]);
  store([sample]);
  const { data } = (await app.call("GET", "/v1/traces?source=rollout&score=reward&min_score=1")).body;
  expect(data).toMatchObject([{ source: "rollout", job_id: "job_1", step: 3, completion_tokens: 1 }]);
  expect(await found(app, "job_id=job_1")).toHaveLength(1);
});

test("rollouts go with their job; those of other jobs stay", async () => {
  const app = open();
  const samples = [{ prompt: "2 + 2", completion: "four", reward: 1, tokens: 1, truncated: false, error: null }];
  const now = app.ctx.clock.now();
  write(app.ctx.db, (tx) => {
    for (const jobId of ["job_a", "job_b", "job_c"])
      storeRollouts(app.ctx, tx, { workspaceId: app.workspaceA, jobId, step: 1, model: "tiny", samples });
  });
  insert(app, "training_jobs", "job_b", now, {});
  await prune(app.ctx);
  expect((await app.call("GET", "/v1/traces")).body.data).toMatchObject([{ job_id: "job_b" }]);
  expect(await found(app, "q=four")).toHaveLength(1);
});

test("a conversation counts its traces, also after some of them were removed", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "traces.retention_days": 2 } });
  const talk = (promptTokens: number) =>
    add(app, { source: "otlp", capture: "metadata", conversationId: "talk", promptTokens, completionTokens: 1 });
  for (const tokens of [5, 7]) talk(tokens);
  clock.advance(DAY_MS);
  talk(11);
  const sums = async () => (await app.call("GET", "/v1/traces/conversations")).body.data;
  expect(await sums()).toMatchObject([{ trace_count: 3, prompt_tokens: 23, completion_tokens: 3 }]);
  clock.advance(1.5 * DAY_MS);
  await prune(app.ctx);
  expect(await sums()).toMatchObject([{ trace_count: 1, prompt_tokens: 11, completion_tokens: 1 }]);
  clock.advance(DAY_MS);
  await prune(app.ctx);
  expect(await sums()).toEqual([]);
});

test("sample: a repeatable share of the captured traces", () => {
  const app = open();
  for (let i = 0; i < 200; i++) add(app, { ...say("x"), deploymentId: "dep_a" });
  add(app, { deploymentId: "dep_a" });
  const share = (rate: number) =>
    traces.sample(app.ctx, { workspaceId: app.workspaceA, deploymentId: "dep_a", since: 0, rate });
  expect([share(0).length, share(1).length]).toEqual([0, 200]);
  expect(share(0.5)).toEqual(share(0.5));
  expect(share(0.5).length).toBeWithin(50, 150);
});
