/** The event feed with 200,000 events: what its readers cost is counted in rows that their queries look at, not in time. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { type TestApp, testApp, until } from "../harness.ts";

const EVENTS = 200_000;
const STREAMS = 20;
const RARE = "webhook_endpoint.deleted";

let app: TestApp;
let visited = 0;
let queries = 0;
beforeEach(() => {
  app = testApp();
  const insert = `INSERT INTO events (id, workspace_id, type, subject_id, data, created_at)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${EVENTS})
    SELECT printf('evt_growth%08d', i), ?, 'secret.created', 'x', '{"id":"x"}', 1 FROM n`;
  app.ctx.db.$client.prepare(insert).run(app.workspaceA);
  countRows();
});
afterEach(() => app.close().then(app.remove));

/**
 * Counts what each query of the feed looks at: all events of the workspace behind `after` and up to the upper bound, if
 * it has one; no more than its LIMIT where every row that it looks at is also a result.
 */
function countRows() {
  const client = app.ctx.db.$client;
  const prepare = client.prepare.bind(client);
  const between = prepare(
    "SELECT count(*) AS rows FROM (SELECT 1 FROM events WHERE workspace_id = ? AND seq > ? AND seq <= ? LIMIT ?)",
  );
  client.prepare = ((sql: string) => {
    const statement = prepare(sql);
    if (!/^select .*from "events"/s.test(sql) || !sql.includes('"seq" >')) return statement;
    const values = statement.values.bind(statement);
    statement.values = (...params) => {
      const [workspaceId, after, ...rest] = params as [string, number, ...unknown[]];
      const upTo = sql.includes('"seq" <=') ? (rest[0] as number) : Number.MAX_SAFE_INTEGER;
      const limit = sql.includes(" IN (") ? Number.MAX_SAFE_INTEGER : (rest.at(-1) as number);
      queries++;
      visited += (between.get(workspaceId, after, upTo, limit) as { rows: number }).rows;
      return values(...params);
    };
    return statement;
  }) as typeof client.prepare;
  visited = 0;
  queries = 0;
}

function open(after: string) {
  const request = new Request(`http://localhost/v1/events?stream=1&types=${RARE}&after=${after}`, {
    headers: { authorization: `Bearer ${app.keyA}` },
  });
  let text = "";
  let cancel = async () => {};
  void (async () => {
    const reader = (await app.handle(request)).body!.getReader();
    cancel = () => reader.cancel();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += new TextDecoder().decode(value);
    }
  })();
  return { text: () => text, lastId: () => [...text.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1], leave: () => cancel() };
}

const put = (i: number) => app.call("PUT", `/v1/secrets/GROWTH_${i}`, { value: "x" });

test("D2: 20 filtered streams pass 200,000 events once, tell their place, and look at nothing twice", async () => {
  const streams = Array.from({ length: STREAMS }, () => open("evt_growth00000001"));
  const nearEnd = `evt_growth${String(EVENTS - 2_000).padStart(8, "0")}`;
  await until("all to have passed by what is not for them", () =>
    streams.every(({ lastId }) => (lastId() ?? "") > nearEnd),
  );
  expect(visited).toBeLessThan(STREAMS * EVENTS * 2.1); // once by the index, once by type

  visited = 0;
  for (let i = 0; i < 50; i++) expect((await put(i)).status).toBe(201);
  const endpoint = (await app.call("POST", "/v1/webhooks", { url: "https://example.com/x" })).body.id as string;
  await app.call("DELETE", `/v1/webhooks/${endpoint}`);
  await until("the one that they wait for", () => streams.every(({ text }) => text().includes(endpoint)));
  expect(visited).toBeLessThan(STREAMS * 6_000); // the last stretches to the end, and not 52 times 200,000 for each

  const place = streams[0]?.lastId() ?? "";
  await Promise.all(streams.map(({ leave }) => leave()));
  visited = 0;
  const again = open(place);
  expect((await put(51)).status).toBe(201);
  await app.call(
    "DELETE",
    `/v1/webhooks/${(await app.call("POST", "/v1/webhooks", { url: "https://example.com/y" })).body.id}`,
  );
  await until("what came since", () => again.text().includes(RARE));
  expect(visited).toBeLessThan(2_000);
  await again.leave();
}, 120_000);

test("D2: a stream that comes back before anything was for it goes on near its end", async () => {
  const first = open("evt_growth00000001");
  const nearEnd = `evt_growth${String(EVENTS - 2_000).padStart(8, "0")}`;
  const place = await until("its place", () => {
    const id = first.lastId();
    return id !== undefined && id > nearEnd ? id : undefined;
  });
  await first.leave();
  visited = 0;
  const second = open(place);
  const { id } = (await app.call("POST", "/v1/webhooks", { url: "https://example.com/x" })).body;
  await app.call("DELETE", `/v1/webhooks/${id}`);
  await until("the event", () => second.text().includes(id));
  expect(visited).toBeLessThan(10_000);
  await second.leave();
}, 120_000);

test("M2: streams of one workspace that wait share one look at the database", async () => {
  const streams = Array.from({ length: 100 }, () => open("latest"));
  await until("all to be open", () => streams.every(({ lastId }) => lastId() !== undefined));
  await put(1); // all of them have seen this one
  queries = 0;
  for (let i = 2; i < 12; i++) expect((await put(i)).status).toBe(201);
  const endpoint = (await app.call("POST", "/v1/webhooks", { url: "https://example.com/x" })).body.id as string;
  await app.call("DELETE", `/v1/webhooks/${endpoint}`);
  await until("the one that they wait for", () => streams.every(({ text }) => text().includes(endpoint)));
  expect(queries).toBeLessThan(100); // 12 commits; each for itself they would be 1,200
  await Promise.all(streams.map(({ leave }) => leave()));
}, 120_000);
