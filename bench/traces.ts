/** Traces: the rate of inserts, the time of filters over many traces, and the cost of capturing a chat request. */
import { openOffline } from "../src/app.ts";
import type { Ctx } from "../src/context.ts";
import { loadConfig } from "../src/platform/config/config.ts";
import { durable } from "../src/platform/db/db.ts";
import { silentLog } from "../src/platform/log.ts";
import { flush } from "../src/resources/traces/flush.ts";
import type { NewTrace } from "../src/resources/traces/new_trace.ts";
import type { TraceFilter } from "../src/resources/traces/schema.ts";
import * as traces from "../src/resources/traces/service.ts";
import * as workspaces from "../src/resources/workspaces/service.ts";
import { testApp } from "../test/harness.ts";
import { pretendServing } from "../test/pretend_replica.ts";
import { median, type Row, remove, tempDir } from "./tools.ts";

const WORDS =
  "the quick brown fox jumps over a lazy dog while seven wizards quietly read old maps by candle light".split(" ");
const REDACT = ["\\b\\d{16}\\b", "(?i)[\\w.+-]+@[\\w-]+(\\.[a-z]{2,})+"];
const CAPTURED = 10; // one of this many has content

export async function run({ quick = false } = {}): Promise<Row[]> {
  const count = quick ? 100_000 : 1_000_000;
  const dir = tempDir();
  const config = loadConfig({ env: { HOME: dir }, flags: { data_dir: dir } });
  const { ctx, close } = await openOffline(config, { log: silentLog });
  try {
    const { id: workspaceId } = workspaces.create(ctx, { name: "bench", metadata: {} });
    const rows = [await inserting(ctx, workspaceId, count), ...filtering(ctx, workspaceId, count)];
    return [...rows, await recording(ctx, workspaceId), ...(await chatting())];
  } finally {
    await close();
    remove(dir);
  }
}

/** A text of about 600 characters; `rare` occurs once in a thousand. */
function textOf(i: number): string {
  const words = Array.from({ length: 110 }, (_, k) => WORDS[(i * 7 + k * 13) % WORDS.length]);
  return `${words.join(" ")} number${i % 5_000}${i % 1_000 === 0 ? " rare" : ""}`;
}

function traceOf(workspaceId: string, i: number, capture: NewTrace["capture"]): NewTrace {
  const body = [{ role: "user", content: textOf(i) }];
  return {
    ...{ workspaceId, source: "chat", capture, redact: REDACT, model: "verk-tiny", startedAt: Date.now() },
    ...{ deploymentId: `dep_${i % 8}`, keyId: `key_${i % 50}`, status: i % 200 === 0 ? 500 : 200 },
    ...{ durationMs: i % 2_000 === 0 ? 30_000 : 100 + (i % 400), promptTokens: 120, completionTokens: 60 },
    spans: [
      { name: "template", start_ms: 0, duration_ms: 1, attributes: {} },
      { name: "prompt", start_ms: 1, duration_ms: 20, attributes: { tokens: 120, cached_tokens: 0 } },
      { name: "decode", start_ms: 21, duration_ms: 80, attributes: { tokens: 60 } },
    ],
    conversationId: `talk-${i % 10_000}`,
    parameters: { temperature: 1, max_tokens: 100 },
    content: () => ({ input: body, output: [{ role: "assistant", content: textOf(i + 1) }] }),
    bytes: 1_300,
  };
}

async function inserting(ctx: Ctx, workspaceId: string, count: number): Promise<Row> {
  const begun = performance.now();
  for (let i = 0; i < count; ) {
    for (const end = Math.min(count, i + 500); i < end; i++)
      traces.record(ctx, traceOf(workspaceId, i, i % CAPTURED === 0 ? "full" : "metadata"));
    flush(ctx);
    await durable(ctx.db);
  }
  const rate = count / ((performance.now() - begun) / 1000);
  const what = `durable inserts, ${count} traces, one of ${CAPTURED} with 1.3 kB of content`;
  return row(what, `${Math.round(rate)}/s`, "≥ 3000/s", rate >= 3_000);
}

function filtering(ctx: Ctx, workspaceId: string, count: number): Row[] {
  const filters: Record<string, TraceFilter> = {
    newest: {},
    deployment: { deployment_id: "dep_3" },
    "key and status error": { key_id: "key_7", status: "error" },
    "status 500": { status: 500 },
    "status that never occurs": { status: 418 },
    "duration over 10 s": { min_duration_ms: 10_000 },
    "duration over 100 ms": { min_duration_ms: 100 },
    conversation: { conversation_id: "talk-77" },
    "a rare word": { q: "rare" },
    "a common word": { q: "wizards" },
    "common word and rare status": { q: "wizards", status: "error" },
    "source that never occurs": { source: "rollout" },
  };
  return Object.entries(filters).map(([name, filter]) => {
    const times = Array.from({ length: 15 }, () => {
      const begun = performance.now();
      traces.list(ctx, workspaceId, { limit: 20, ...filter });
      return performance.now() - begun;
    });
    const worst = Math.max(...times);
    const what = `list of 20 among ${count}: ${name} (p50 ${median(times).toFixed(1)} ms)`;
    return row(what, `${worst.toFixed(1)} ms worst`, "≤ 100 ms", worst <= 100);
  });
}

/** All work of a captured request's trace: recording, redaction, and its share of the commit. */
async function recording(ctx: Ctx, workspaceId: string): Promise<Row> {
  const costs: number[] = [];
  for (let round = 0; round < 400; round++) {
    const made = Array.from({ length: 10 }, (_, i) => traceOf(workspaceId, round * 10 + i, "full"));
    const begun = performance.now();
    for (const each of made) traces.record(ctx, each);
    flush(ctx);
    await new Promise(setImmediate); // the commit
    costs.push((performance.now() - begun) / made.length);
  }
  const typical = median(costs);
  return row(
    "all work of one captured trace, ten in a commit, p50",
    `${typical.toFixed(3)} ms`,
    "≤ 0.3 ms",
    typical <= 0.3,
  );
}

/** Requests through the whole server with a replica that answers at once, with and without capture in turn. */
async function chatting(): Promise<Row[]> {
  const app = testApp({ flags: { "http.rate_limit_per_second": 0 } });
  try {
    const times: Record<string, number[]> = { none: [], full: [] };
    for (const capture of ["none", "full"]) {
      const { body } = await app.call("POST", "/v1/deployments", {
        model: "bench/m",
        name: capture,
        capture,
        capture_redact: REDACT,
      });
      pretendServing(app, body.id);
    }
    for (let i = 0; i < 3_000; i++)
      for (const capture of ["none", "full"]) {
        const request = new Request("http://localhost/v1/chat/completions", {
          method: "POST",
          headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
          body: JSON.stringify({ model: capture, messages: [{ role: "user", content: textOf(i) }] }),
        });
        const begun = performance.now();
        await (await app.handle(request)).text();
        if (i >= 500) times[capture]?.push(performance.now() - begun);
      }
    const [none, full] = [median(times["none"] ?? []), median(times["full"] ?? [])];
    const what = `chat request with capture full against none, p50 (${full.toFixed(2)} and ${none.toFixed(2)} ms)`;
    return [row(what, `${(full - none).toFixed(3)} ms`, "≤ 0.3 ms", full - none <= 0.3)];
  } finally {
    await app.close();
    app.remove();
  }
}

const row = (what: string, value: string, target: string, ok: boolean): Row => ({
  bench: "traces",
  what,
  value,
  target,
  ok,
});
