/**
 * Traces: the rate of inserts beside chat requests, the time of each filter over many traces, the size of the file under
 * retention, and the cost of capturing a chat request. All in one process, with a replica that answers at once.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../src/lib/ids.ts";
import { DAY_MS } from "../src/lib/units.ts";
import { durable, write } from "../src/platform/db/db.ts";
import { facets } from "../src/resources/watching/traces/facets.ts";
import { flush } from "../src/resources/watching/traces/flush.ts";
import type { NewTrace } from "../src/resources/watching/traces/new_trace.ts";
import { prune } from "../src/resources/watching/traces/prune.ts";
import type { TraceFilter } from "../src/resources/watching/traces/schema.ts";
import * as traces from "../src/resources/watching/traces/service.ts";
import { traceScores } from "../src/resources/watching/traces/table.ts";
import { fakeClock, type TestApp, testApp } from "../test/harness.ts";
import { pretendServing } from "../test/pretend_replica.ts";
import { median, type Row, watchTurns } from "./tools.ts";

const WORDS =
  "the quick brown fox jumps over a lazy dog while seven wizards quietly read old maps by candle light".split(" ");
const REDACT = ["\\b\\d{16}\\b", "(?i)[\\w.+-]+@[\\w-]+(\\.[a-z]{2,})+"];
const BUFFERED = 1_000; // traces that wait while others are inserted

export async function run({ quick = false } = {}): Promise<Row[]> {
  const count = Number(process.env["VERK_BENCH_TRACES"] ?? (quick ? 30_000 : 1_000_000));
  const app = testApp({ flags: { "http.rate_limit_per_second": 0 } });
  try {
    for (const capture of ["none", "full"] as const) await deploy(app, capture);
    const rows = await inserting(app, count);
    scoring(app);
    rows.push(
      ...(await filtering(app, count)),
      await counting(app, count),
      await recording(app),
      ...(await capturing(app, quick ? 600 : 3_000)),
    );
    return [...rows, await retaining(quick ? 1_000 : 20_000)];
  } finally {
    await app.close();
    app.remove();
  }
}

async function deploy(app: TestApp, capture: NewTrace["capture"]) {
  const json = { model: "bench/m", name: capture, capture, capture_redact: REDACT };
  const { body } = await app.call("POST", "/v1/deployments", json);
  pretendServing(app, body.id);
}

/** The time of a chat request to the deployment of this name. */
async function chat(app: TestApp, model: string, i: number): Promise<number> {
  const request = new Request("http://localhost/v1/chat/completions", {
    method: "POST",
    headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: textOf(i) }] }),
  });
  const begun = performance.now();
  const response = await app.handle(request);
  await response.text();
  if (response.status !== 200) throw new Error(`a chat request failed with ${response.status}`);
  return performance.now() - begun;
}

/** About 600 characters. `rare` is in one of 1,000; `even` and `odd` are never together. */
function textOf(i: number): string {
  const words = Array.from({ length: 110 }, (_, k) => WORDS[(i * 7 + k * 13) % WORDS.length]);
  return `${words.join(" ")} number${i % 5_000} ${i % 2 === 0 ? "even" : "odd"}${i % 1_000 === 0 ? " rare" : ""}`;
}

/** `early`: keys, durations and errors that only the oldest traces have, so that a scan by time finds them last. */
function traceOf(app: TestApp, i: number, isEarly = false): NewTrace {
  const input = [{ role: "user", content: textOf(i) }];
  return {
    workspaceId: app.workspaceA,
    source: "chat",
    capture: "full",
    redact: REDACT,
    model: "verk-tiny",
    deploymentId: `dep_${i % 8}`,
    keyId: isEarly ? "key_early" : `key_${i % 50}`,
    startedAt: Date.now(),
    status: isEarly && i % 2 === 0 ? 429 : i % 200 === 0 ? 500 : 200,
    promptTokens: 120,
    completionTokens: 60,
    durationMs: isEarly ? 60_000 : i % 2_000 === 0 ? 30_000 : 100 + (i % 400),
    spans: [
      { name: "template", start_ms: 0, duration_ms: 1, attributes: {} },
      { name: "prompt", start_ms: 1, duration_ms: 20, attributes: { tokens: 120, cached_tokens: 0 } },
      { name: "decode", start_ms: 21, duration_ms: 80, attributes: { tokens: 60 } },
    ],
    conversationId: i % 4 === 0 ? "talk-long" : `talk-${i % 10_000}`,
    user: `user-${i % 1_000}`,
    metadata: { tags: i % 1_000 === 0 ? ["rare"] : ["usual"] },
    parameters: { temperature: 1, max_tokens: 100 },
    content: () => ({ input, output: [{ role: "assistant", content: textOf(i + 2) }] }),
    bytes: 1_300,
  };
}

async function inserting(app: TestApp, count: number): Promise<Row[]> {
  const { ctx } = app;
  const times: number[] = [];
  let isOver = false;
  const chats = (async () => {
    while (!isOver) times.push(await chat(app, "full", times.length));
  })();
  const before = process.cpuUsage();
  const begun = performance.now();
  for (let i = 0; i < count; ) {
    while (i < count && ctx.state.traces.buffer.size < BUFFERED) traces.record(ctx, traceOf(app, i, i++ < count / 20));
    await new Promise(setImmediate);
  }
  flush(ctx);
  await durable(ctx.db);
  const seconds = (performance.now() - begun) / 1_000;
  const { user, system } = process.cpuUsage(before);
  isOver = true;
  await chats;
  const rate = (count + times.length) / seconds;
  const what = `inserts of ${count} traces with 1.3 kB of content beside ${times.length} chat requests`;
  const stored = ctx.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM traces").get()?.n ?? 0;
  return [
    row(what, `${Math.round(rate)}/s`, "≥ 3000/s", rate >= 3_000 && stored >= count),
    row("processor time for each, chat requests included", `${((user + system) / count).toFixed(0)} µs`, "", null),
    row("chat request beside these inserts, p50", `${median(times).toFixed(1)} ms`, "", null),
    row("size of the file for each trace", `${Math.round(sizeOf(app) / count)} bytes`, "", null),
  ];
}

const sizeOf = ({ dir }: TestApp) => statSync(join(dir, "verk.db")).size;

/** `helpful` is on one of 50; `early` only on the oldest twentieth; `rated` on every third, with few values under 0.001. */
function scoring({ ctx, workspaceA: workspaceId }: TestApp) {
  const found = ctx.db.$client
    .query<{ id: string; seq: number; at: number }, []>("SELECT id, seq, created_at AS at FROM traces ORDER BY seq")
    .all();
  const base = { workspaceId, label: null, source: "judge", evaluatorId: null, keyId: null, comment: null } as const;
  const scores = found.flatMap(({ id: traceId, seq, at }) => {
    const place = { traceId, traceSeq: seq, traceAt: at, createdAt: ctx.clock.now(), kind: "number" as const };
    const score = (name: string, value: number) => ({ ...base, ...place, id: newId("scr"), name, value });
    return [
      ...(seq % 50 === 0 ? [score("helpful", (seq % 100) / 100)] : []),
      ...(seq < found.length / 20 ? [score("early", seq % 2)] : []),
      ...(seq % 3 === 0 ? [score("rated", ((seq * 7_919) % 100_000) / 100_000)] : []),
    ];
  });
  for (let i = 0; i < scores.length; i += 1_000)
    write(ctx.db, (tx) =>
      tx
        .insert(traceScores)
        .values(scores.slice(i, i + 1_000))
        .run(),
    );
}

async function filtering({ ctx, workspaceA }: TestApp, count: number): Promise<Row[]> {
  const { $client } = ctx.db;
  const atOf = $client.query<{ at: number }, [number]>("SELECT created_at AS at FROM traces WHERE seq = ?");
  const time = new Date(atOf.get(count >> 1)?.at ?? 0).toISOString();
  const filters: Record<string, TraceFilter> = {
    none: {},
    deployment: { deployment_id: "dep_3" },
    key: { key_id: "key_7" },
    "key of the oldest": { key_id: "key_early" },
    "status 500": { status: 500 },
    "status 429 of the oldest": { status: 429 },
    "status that never occurs": { status: 418 },
    "status error": { status: "error" },
    "status ok": { status: "ok" },
    "duration over 10 s": { min_duration_ms: 10_000 },
    "duration over 40 s, the oldest": { min_duration_ms: 40_000 },
    "duration over 100 ms": { min_duration_ms: 100 },
    "duration of 450 to 460 ms": { min_duration_ms: 450, max_duration_ms: 460 },
    "since the middle": { since: time },
    "until the middle": { until: time },
    conversation: { conversation_id: "talk-77" },
    "conversation of a quarter": { conversation_id: "talk-long" },
    "score on one of 50": { score: "helpful" },
    "score over 0.9": { score: "helpful", min_score: 0.9 },
    "score of the oldest": { score: "early" },
    "score of the oldest, half of it": { score: "early", min_score: 1 },
    "score under 0.001 of every third": { score: "rated", max_score: 0.001 },
    "score that never occurs": { score: "none" },
    "a rare word": { q: "rare" },
    "a common word": { q: "wizards" },
    "a phrase that never occurs": { q: '"seven old candle"' },
    "a phrase": { q: '"the read lazy"' },
    "beginning of 11 words": { q: "number499*" },
    "beginning of 111 words": { q: "number49*" },
    "beginning of two common words": { q: "wi* candl*" },
    "beginning of no word": { q: "xyz*" },
    "beginnings that never meet": { q: "eve* odd*" },
    "a phrase with a beginning that never occurs": { q: '"seven old can*"' },
    "two words that never meet": { q: "even odd" },
    "a common word in a conversation of 100": { q: "wizards", conversation_id: "talk-77" },
    "source that never occurs": { source: "rollout" },
    "requests of users": { source: "requests" },
    "model of all": { source: "requests", model: "verk-tiny" },
    user: { user: "user-77" },
    "user that never occurs": { user: "nobody" },
    "a rare tag": { tag: "rare" },
    "key and deployment": { key_id: "key_7", deployment_id: "dep_3" },
    "key and deployment that never meet": { key_id: "key_7", deployment_id: "dep_2" },
    "key and status error": { key_id: "key_7", status: "error" },
    "deployment and score": { deployment_id: "dep_3", score: "helpful", min_score: 0.5 },
    "common word and status error": { q: "wizards", status: "error" },
    "key of the oldest and status ok": { key_id: "key_early", status: "ok" },
  };
  const rows: Row[] = [];
  const pagesOf = new Map<string, [pages: number, found: number]>();
  const turns = watchTurns();
  for (const [name, filter] of Object.entries(filters)) {
    const times: number[] = [];
    let [found, pages] = [0, 0];
    await turns.longest();
    for (let round = 0; round < 15; round++) {
      pages = 0;
      for (let after: string | undefined; pages === 0 || (found === 0 && after !== undefined && round < 2); pages++) {
        const begun = performance.now();
        const { data, next_after } = await traces.list(ctx, workspaceA, { limit: 20, after, ...filter });
        times.push(performance.now() - begun);
        [found, after] = [data.length, next_after ?? undefined];
        await Bun.sleep(0);
      }
      if (round === 1) pagesOf.set(name, [pages, found]);
    }
    const [needed, first] = pagesOf.get(name) ?? [0, 0];
    const longest = await turns.longest();
    const [middle, worst] = [median(times), Math.max(...times)];
    const what = `filter among ${count}: ${name} (${first} found in ${needed} pages), p50 and worst of ${times.length}; other work waits at most`;
    const value = `${middle.toFixed(1)} ms, ${worst.toFixed(1)} ms; ${longest.toFixed(1)} ms`;
    rows.push(row(what, value, "p50 ≤ 100 ms", middle <= 100));
  }
  turns.stop();
  return rows;
}

/** Counts of all facets, which the list of the dashboard loads every five seconds. */
async function counting({ ctx, workspaceA }: TestApp, count: number): Promise<Row> {
  const turns = watchTurns();
  await turns.longest();
  const times: number[] = [];
  let total = 0;
  for (let round = 0; round < 15; round++) {
    const begun = performance.now();
    ({ total } = await facets(ctx, workspaceA, { source: "requests" }));
    times.push(performance.now() - begun);
    await Bun.sleep(0);
  }
  const longest = await turns.longest();
  turns.stop();
  const middle = median(times);
  const what = `facets of ${count} traces (${total} counted), p50; other work waits at most`;
  return row(what, `${middle.toFixed(1)} ms; ${longest.toFixed(1)} ms`, "p50 ≤ 100 ms", middle <= 100);
}

/** All work of a captured request's trace: recording, redaction, and its share of the commit. */
async function recording(app: TestApp): Promise<Row> {
  const costs: number[] = [];
  for (let round = 0; round < 400; round++) {
    const made = Array.from({ length: 10 }, (_, i) => traceOf(app, round * 10 + i));
    const begun = performance.now();
    for (const each of made) traces.record(app.ctx, each);
    flush(app.ctx);
    await new Promise(setImmediate); // the commit
    costs.push((performance.now() - begun) / made.length);
  }
  const cost = median(costs);
  return row("all work of one captured trace, ten in a commit, p50", `${cost.toFixed(3)} ms`, "≤ 0.3 ms", cost <= 0.3);
}

/** Requests with and without capture in turn, while the database has all traces. */
async function capturing(app: TestApp, rounds: number): Promise<Row[]> {
  const times: Record<"none" | "full", number[]> = { none: [], full: [] };
  for (let i = 0; i < rounds; i++)
    for (const name of ["none", "full"] as const) {
      const time = await chat(app, name, i);
      if (i >= rounds / 6) times[name].push(time);
    }
  const [none, full] = [median(times.none), median(times.full)];
  const what = `chat request with capture full against none, p50 (${full.toFixed(2)} and ${none.toFixed(2)} ms)`;
  return [row(what, `${(full - none).toFixed(3)} ms`, "≤ 0.3 ms", full - none <= 0.3)];
}

const DAYS = 12;
const RETENTION_DAYS = 3;

/** The same number of traces each day: once retention removes as many as come, the file must not grow. */
async function retaining(daily: number): Promise<Row> {
  const clock = fakeClock();
  const app = testApp({ clock, flags: { "traces.retention_days": RETENTION_DAYS } });
  try {
    const sizes: number[] = [];
    let pruning = 0;
    for (let day = 0; day < DAYS; day++) {
      for (let i = 0; i < daily; i++) {
        traces.record(app.ctx, { ...traceOf(app, day * daily + i), deploymentId: null });
        if (i % 500 === 499) flush(app.ctx);
      }
      clock.advance(DAY_MS);
      const begun = performance.now();
      await prune(app.ctx);
      pruning += performance.now() - begun;
      await durable(app.ctx.db);
      app.ctx.db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
      sizes.push(sizeOf(app));
    }
    const [full, last] = [sizes[RETENTION_DAYS + 1] ?? 0, sizes.at(-1) ?? 0];
    const rate = Math.round((daily * (DAYS - RETENTION_DAYS)) / (pruning / 1_000));
    const what = `file after ${DAYS} days of ${daily} traces with a retention of ${RETENTION_DAYS} (${rate} removed/s)`;
    const growth = last / full;
    const size = `${(last / 1e6).toFixed(0)} MB, ${growth.toFixed(2)} of day ${RETENTION_DAYS + 2}`;
    return row(what, size, "≤ 1.15", growth <= 1.15);
  } finally {
    await app.close();
    app.remove();
  }
}

const row = (what: string, value: string, target: string, ok: boolean | null): Row => ({
  bench: "traces",
  what,
  value,
  target,
  ok,
});
