import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";
import { newId } from "../../../lib/ids.ts";
import { nextTurn } from "../../../lib/turns.ts";
import { durable, isDirty, write } from "../../../platform/db/db.ts";
import { failpoints } from "../../../platform/failpoint.ts";
import { flushAll, settled } from "./flush.ts";
import * as traces from "./service.ts";
import { traceScores } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(() => {
  delete failpoints.hit;
  return closeAll();
});
type App = ReturnType<typeof open>;

const CONVERSATION = "of-this-test";
const MODEL = "model-of-this-test";
const CONVERSATIONS = "/v1/traces/conversations";
/** Requests that show traces, by the route that answers. */
const SHOWN: Record<string, readonly [method: string, path: string, body?: object][]> = {
  "/v1/traces": [
    ["GET", "/v1/traces"],
    ["GET", "/v1/traces?q=unlikely"],
    ["GET", "/v1/traces?source=chat&max_duration_ms=100"],
  ],
  "/v1/traces/export": [
    ["GET", "/v1/traces/export"],
    ["GET", "/v1/traces/export?q=unlikely"],
  ],
  "/v1/traces/facets": [["GET", "/v1/traces/facets"]],
  "/v1/traces/{id}": [
    ["GET", "/v1/traces/ID"],
    ["DELETE", "/v1/traces/ID"],
  ],
  "/v1/traces/{id}/scores": [["POST", "/v1/traces/ID/scores", { name: "fine", value: 1 }]],
  [CONVERSATIONS]: [["GET", CONVERSATIONS]],
  [`${CONVERSATIONS}/{id}`]: [["GET", `${CONVERSATIONS}/${CONVERSATION}`]],
  [`${CONVERSATIONS}/{id}/replay`]: [["POST", `${CONVERSATIONS}/${CONVERSATION}/replay`, {}]],
};
const REQUESTS = Object.values(SHOWN).flatMap((requests) =>
  requests.map(([method, path, body]) => ({ method, path, body })),
);
const READS = REQUESTS.filter(({ method }) => method === "GET");

test("R7: every route of traces and conversations is in these tests", async () => {
  const routes = await open().handle.routes();
  const paths = new Set(routes.map(({ path }) => path.replaceAll(/:(\w+)/g, "{$1}").replace(/(.)\/$/, "$1")));
  const shown = [...paths].filter((path) => path.startsWith("/v1/traces"));
  expect(shown.sort()).toEqual(Object.keys(SHOWN).sort());
});

/** A trace that is in memory. Only a request or the test itself stores it. */
async function recorded(app: App): Promise<string> {
  const id = newId("trc", app.ctx.clock.now());
  await Promise.all(READS.map(({ method, path }) => app.call(method, path.replace("ID", id)))); // loads the routes
  await durable(app.ctx.db);
  app.ctx.state.traces.scheduled = true;
  const times = { startedAt: app.ctx.clock.now(), durationMs: 10, spans: [] };
  const more = {
    source: "chat" as const,
    model: MODEL,
    capture: "full" as const,
    status: 200,
    conversationId: CONVERSATION,
  };
  const content = () => ({ input: [{ role: "user", content: "an unlikely question" }], output: null });
  traces.record(app.ctx, { ...times, ...more, content, id, workspaceId: app.workspaceA });
  return id;
}

function loseCommits() {
  failpoints.hit = (name) => {
    if (name === "db.before_commit") throw Object.assign(new Error("no space"), { code: "SQLITE_FULL" });
  };
}

test.each(READS)("R7: $method $path shows a trace that is on the disk", async ({ method, path }) => {
  const app = open();
  const id = await recorded(app);
  const { status, body } = await app.call(method, path.replace("ID", id));
  expect([status, isDirty(app.ctx.db)]).toEqual([200, false]);
  expect(JSON.stringify(body)).toContain({ [CONVERSATIONS]: CONVERSATION, "/v1/traces/facets": MODEL }[path] ?? id);
});

test.each(REQUESTS)("R7: $method $path whose commit is lost shows nothing and answers 503", async (each) => {
  const { method, path, body: sent } = each;
  const app = open();
  const id = await recorded(app);
  loseCommits();
  const { status, body } = await app.call(method, path.replace("ID", id), sent);
  expect([status, body.error?.code]).toEqual([503, "storage_unavailable"]);
  for (const mark of [id, CONVERSATION, MODEL]) expect(JSON.stringify(body)).not.toContain(mark);
  delete failpoints.hit;
  expect((await app.call("GET", `/v1/traces/${id}`)).status).toBe(404);
});

test.each(REQUESTS)("R7: for $method $path a trace whose commit was lost before does not exist", async (each) => {
  const { method, path, body: sent } = each;
  const app = open();
  const id = await recorded(app);
  loseCommits();
  await flushAll(app.ctx);
  await durable(app.ctx.db).catch(() => {});
  delete failpoints.hit;
  const { status, body } = await app.call(method, path.replace("ID", id), sent);
  const isOfOne = path.includes("ID") || path.includes(CONVERSATION);
  expect(status).toBe(isOfOne ? 404 : 200);
  if (!isOfOne) for (const mark of [id, CONVERSATION, MODEL]) expect(JSON.stringify(body)).not.toContain(mark);
  expect(app.ctx.db.select().from(traceScores).all()).toEqual([]);
});

test("R7: a trace that a read of several turns has seen is not shown if its commit is lost between them", async () => {
  const app = open();
  const id = await recorded(app);
  const seen: string[] = [];
  loseCommits();
  const read = async () => {
    seen.push(traces.mustGet(app.ctx, app.workspaceA, id).id);
    await nextTurn();
    delete failpoints.hit;
    write(app.ctx.db, () => {}); // a later commit goes well
    return seen;
  };
  await expect(settled(app.ctx, app.workspaceA, read)).rejects.toThrow(/disk of the data directory is full/);
  expect(seen).toEqual([id]);
});

test("R7: a score of a trace that is still in memory is on the disk with its trace", async () => {
  const app = open();
  const id = await recorded(app);
  const { status } = await app.call("POST", `/v1/traces/${id}/scores`, { name: "fine", value: 1 });
  expect([status, isDirty(app.ctx.db)]).toEqual([201, false]);
  expect((await app.call("GET", `/v1/traces/${id}`)).body.scores).toHaveLength(1);
});
