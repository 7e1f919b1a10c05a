// tier: all (sweeps of faults)
/** The event feed with 200,000 events: what its readers cost is counted in rows that their queries look at, not in time. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { type TestApp, testApp, until } from "../harness.ts";

const EVENTS = 200_000;
const STREAMS = 20;
const RARE = "webhook_endpoint.deleted";
const idOf = (i: number) => `evt_${String(i).padStart(26, "0")}`;

let app: TestApp;
let visited = 0;
let queries = 0;
beforeEach(() => {
  app = testApp();
  const insert = `INSERT INTO events (id, workspace_id, type, subject_id, data, created_at)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${EVENTS})
    SELECT printf('evt_%026d', i), ?, 'secret.created', 'x', '{"id":"x"}', 1 FROM n`;
  app.ctx.db.$client.prepare(insert).run(app.workspaceA);
  countRows();
});
afterEach(() => app.close().then(app.remove));

/** Counts what each query of the feed looks at: at most its LIMIT, because every row that it looks at is a result. */
function countRows() {
  const client = app.ctx.db.$client;
  const prepare = client.prepare.bind(client);
  client.prepare = ((sql: string) => {
    const statement = prepare(sql);
    if (!/^select .*from "events"/s.test(sql) || !sql.includes('"seq" >')) return statement;
    const values = statement.values.bind(statement);
    statement.values = (...params) => {
      const found = values(...params);
      queries++;
      visited += found.length;
      return found;
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

test("D2: 20 filtered streams pass 200,000 events once, report their position, and read no event twice", async () => {
  const streams = Array.from({ length: STREAMS }, () => open(idOf(1)));
  const nearEnd = idOf(EVENTS - 2_000);
  await until("all to have passed by what is not for them", () =>
    streams.every(({ lastId }) => (lastId() ?? "") > nearEnd),
  );
  expect(visited).toBe(0); // the index by type has none of them

  visited = 0;
  for (let i = 0; i < 50; i++) expect((await put(i)).status).toBe(201);
  const endpoint = (await app.call("POST", "/v1/webhooks", { url: "https://example.com/x" })).body.id as string;
  await app.call("DELETE", `/v1/webhooks/${endpoint}`);
  await until("the one that they wait for", () => streams.every(({ text }) => text().includes(endpoint)));
  expect(visited).toBeLessThan(STREAMS * 60); // those that came, and not 52 times 200,000 for each

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
  expect(visited).toBeLessThan(100);
  await again.leave();
}, 120_000);

test("D2: a stream that reconnects before its first match resumes near its last position", async () => {
  const first = open(idOf(1));
  const nearEnd = idOf(EVENTS - 2_000);
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
  expect(visited).toBeLessThan(100);
  await second.leave();
}, 120_000);

test("M2: waiting streams of one workspace share one query of the database", async () => {
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
