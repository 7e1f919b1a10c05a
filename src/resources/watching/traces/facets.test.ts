/** Counts of traces by facet, and what a list shows of each trace. No process starts. */
import { afterEach, expect, test } from "bun:test";
import { fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { randomFor } from "../../../../test/sweep.ts";
import { newId } from "../../../lib/ids.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { firstWords } from "./first_words.ts";
import { flush } from "./flush.ts";
import type { NewTrace } from "./new_trace.ts";
import { storeRollouts } from "./rollouts.ts";
import type { TraceFacets } from "./schema.ts";
import * as traces from "./service.ts";
import { type TraceRow, traceCounts, traceScores, traces as traceTable } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

function add(app: TestApp, more: Partial<NewTrace> = {}): string {
  const base = { workspaceId: app.workspaceA, source: "chat" as const, capture: "metadata" as const, status: 200 };
  const id = newId("trc", app.ctx.clock.now());
  traces.record(app.ctx, { ...base, startedAt: app.ctx.clock.now(), durationMs: 10, spans: [], id, ...more });
  flush(app.ctx);
  return id;
}

const facetsOf = async (app: TestApp, query = "", key = app.keyA): Promise<TraceFacets> => {
  const { status, body } = await app.call("GET", `/v1/traces/facets?${query}`, undefined, { key });
  expect(status).toBe(200);
  return body;
};

test("facets count requests by hour and source, of one workspace, and say how many were not kept", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const deployed = { ...deploymentRow(clock.now(), app.workspaceA, null), id: "dep_a", name: "demo" };
  write(app.ctx.db, (tx) => tx.insert(deployments).values(deployed).run());
  const user = { metadata: { user_id: "ann", tags: "red, blue,red" } };
  add(app, { ...user, deploymentId: "dep_a", model: "m" });
  clock.advance(2 * HOUR_MS);
  const since = new Date(clock.now()).toISOString();
  const kept = { capture: "full" as const, content: () => ({ input: "hi", output: "ho" }) };
  const id = add(app, { ...kept, user: "bob", metadata: { tags: ["red"], user: "ann" }, status: 429 });
  add(app, { source: "evaluation", capture: "none", model: "judge" });
  add(app, { workspaceId: app.workspaceB, model: "other" });
  const samples = [{ prompt: "p", completion: "c", reward: 1, tokens: 1, truncated: false, error: null }];
  const step = { workspaceId: app.workspaceA, jobId: "job_1", step: 1, model: "m", samples };
  write(app.ctx.db, (tx) => storeRollouts(app.ctx, tx, step));
  await app.call("POST", `/v1/traces/${id}/scores`, { name: "good", value: true });

  const all = { value: "chat", count: 2 };
  const sources = [all, { value: "evaluation", count: 1 }, { value: "rollout", count: 1 }];
  expect(await facetsOf(app, "source=requests")).toEqual({
    object: "trace.facets",
    total: 2,
    not_kept: 1,
    source: sources,
    status: [
      { value: "200", count: 1 },
      { value: "429", count: 1 },
    ],
    deployment: [{ value: "dep_a", count: 1, name: "demo" }],
    model: [{ value: "m", count: 1 }],
    user: [
      { value: "ann", count: 1 },
      { value: "bob", count: 1 },
    ],
    tag: [
      { value: "red", count: 2 },
      { value: "blue", count: 1 },
    ],
    score: [{ value: "good", count: 1 }],
  });
  const late = await facetsOf(app, `source=requests&since=${since}`);
  expect([late.total, late.not_kept, late.user]).toEqual([1, 0, [{ value: "bob", count: 1 }]]);
  expect(late.source).toEqual([{ value: "chat", count: 1 }, ...sources.slice(1)]);
  expect((await facetsOf(app, `until=${since}`)).total).toBe(1);
  expect((await facetsOf(app, "source=rollout")).score).toEqual([{ value: "reward", count: 1 }]);
  expect((await facetsOf(app, "", app.keyB)).model).toEqual([{ value: "other", count: 1 }]);

  const found = async (query: string) => (await app.call("GET", `/v1/traces?${query}`)).body.data.length;
  const queries = [
    "source=requests",
    "user=ann",
    "user=bob",
    "model=m",
    "tag=red",
    "tag=blue",
    "tag=re",
    "source=evaluation",
  ];
  expect(await Promise.all(queries.map(found))).toEqual([2, 1, 1, 2, 2, 1, 0, 1]);
  expect(await found("source=requests&status=error&tag=red")).toBe(1);
});

test("counts are those of the traces after any history of inserts, scores and removals", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const random = randomFor("trace counts");
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  let ids: string[] = [];
  for (let i = 0; i < 150; i++) {
    if (random() < 0.2) clock.advance(HOUR_MS / 2);
    const chance = random();
    if (chance < 0.6)
      ids.push(
        add(app, {
          source: pick(["chat", "otlp", "evaluation"]),
          status: pick([200, 500]),
          capture: pick(["none", "metadata"]),
          model: pick(["a", "b", undefined]) ?? null,
          user: pick(["ann", null]),
          metadata: { tags: pick([[], ["x"], ["x", "y"]]) },
        }),
      );
    else if (ids.length > 0 && chance < 0.8)
      await app.call("POST", `/v1/traces/${pick(ids)}/scores`, { name: pick(["good", "bad"]), value: 1 });
    else if (ids.length > 0) {
      const removed = pick(ids);
      await app.call("DELETE", `/v1/traces/${removed}`);
      ids = ids.filter((id) => id !== removed);
    }
  }
  const sumsOf = (entries: readonly (readonly [string, string | null])[]) => {
    const sums: Record<string, number> = {};
    for (const [facet, value] of entries)
      if (value !== null) sums[`${facet} ${value}`] = (sums[`${facet} ${value}`] ?? 0) + 1;
    return sums;
  };
  const keyOf = (row: { createdAt: number; source: string }) => `${Math.floor(row.createdAt / HOUR_MS)} ${row.source}`;
  const rows = app.ctx.db.select().from(traceTable).all();
  const byId = new Map(rows.map((row): [string, TraceRow] => [row.id, row]));
  const expected = sumsOf([
    ...rows.flatMap((row): [string, string | null][] => [
      [`${keyOf(row)} status`, String(row.status)],
      [`${keyOf(row)} capture`, row.capture],
      [`${keyOf(row)} model`, row.model],
      [`${keyOf(row)} user`, row.user],
      ...row.tags.map((tag): [string, string] => [`${keyOf(row)} tag`, tag]),
    ]),
    ...app.ctx.db
      .select()
      .from(traceScores)
      .all()
      .map(({ traceId, name }): [string, string] => [`${keyOf(byId.get(traceId) as TraceRow)} score`, name]),
  ]);
  const counted = app.ctx.db.select().from(traceCounts).all();
  const stored = counted.map(
    ({ hour, source, facet, value, n }) => [`${hour} ${source} ${facet} ${value}`, n] as const,
  );
  expect(Object.fromEntries(stored)).toEqual(expected);
  for (const id of ids) await app.call("DELETE", `/v1/traces/${id}`);
  expect(app.ctx.db.select().from(traceCounts).all()).toEqual([]);
});

test("a list shows the first words, the user, the cost and the newest score of each name", async () => {
  const app = open();
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "  what   is\n2 + 2?" }] },
  ];
  const content = () => ({ input: messages, output: [{ role: "assistant", content: "4" }] });
  const id = add(app, { capture: "full", content, user: "<b>ann</b>", costMicros: 2.5 });
  for (const value of [0.2, 0.8]) await app.call("POST", `/v1/traces/${id}/scores`, { name: "good", value });
  const [shown] = (await app.call("GET", "/v1/traces")).body.data;
  expect(shown).toMatchObject({
    input_start: "what is 2 + 2?",
    output_start: "4",
    user: "<b>ann</b>",
    cost_usd: 0.0000025,
    scores: [{ name: "good", value: 0.8 }],
  });
  expect((await app.call("GET", `/v1/traces/${id}`)).body.scores).toHaveLength(2);
  const hidden = add(app, { capture: "none", content, user: "ann", metadata: { tags: "x" } });
  const { body } = await app.call("GET", `/v1/traces/${hidden}`);
  expect([body.input_start, body.output_start, body.user, body.tags]).toEqual([null, null, null, []]);
});

test("first words come from what a person said, and end between two characters", () => {
  expect(firstWords("plain")).toBe("plain");
  expect(firstWords(["one", "two"])).toBe("one");
  expect(firstWords(null)).toBeNull();
  expect(
    firstWords([
      { role: "user", content: "q" },
      { role: "assistant", content: "a" },
      { role: "tool", content: "t" },
    ]),
  ).toBe("q");
  expect(firstWords([{ role: "assistant", content: null, tool_calls: [{ function: { name: "add" } }] }])).toBe(
    "calls add",
  );
  const emoji = firstWords("🙂".repeat(200)) ?? "";
  expect(emoji.isWellFormed()).toBe(true);
  expect(emoji.length).toBeLessThanOrEqual(160);
});
