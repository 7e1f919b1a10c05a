/** Cursors and query plans of every list of the API. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { clientFormatOf } from "../../src/http/answer/client_errors.ts";
import { openapi } from "../../src/http/openapi.ts";
import { newId } from "../../src/lib/ids.ts";
import { type TestApp, testApp } from "../harness.ts";
import { insert } from "../insert_row.ts";
import { get, LISTS, type ListCase } from "../lists_kit.ts";
import { countRows, planOf } from "../row_counter.ts";

let counting: ReturnType<typeof countRows>;
let app: TestApp;
beforeAll(async () => {
  counting = countRows();
  app = testApp();
  await app.call("POST", "/v1/webhooks", { url: "https://example.com/x" }, { key: app.keyB });
});
afterAll(() => {
  counting.stop();
  return app.close().then(app.remove);
});

const BASE = Date.UTC(2027, 0, 1);

/** Lists whose order has other columns than (created_at, id). */
const SEEKS: Record<string, RegExp> = {
  audit_log: /\bid<\?/,
  traces: /created_at<\?/, // the rest of the order is the row id
};

// As after a clock that was ahead: ids count up from its time until the right time comes.
newId("evt", Date.UTC(2029, 0, 1));

let turn = 0;

/** For each row an id right before its own that no row has. */
const before = new Map<string, string>();

/** Four rows, newest first. They are the newest of their list. */
function rowsOf(list: ListCase): string[] {
  const from = turn;
  turn += 10;
  const ids: string[] = [];
  for (let i = 0; i < 4; i++) {
    const at = BASE + from + i;
    const skipped = newId(list.prefix, at);
    const id = newId(list.prefix, at);
    before.set(id, skipped);
    insert(app, list.table, id, at, list.row?.(app, from + i, id) ?? {});
    ids.unshift(id);
  }
  return ids;
}

const remove = ({ table }: ListCase, id: string) => app.ctx.db.$client.run(`DELETE FROM ${table} WHERE id = ?`, [id]);

/** These are ordered by something else than time, and say so in docs/api.md. */
const OTHER_ORDERS = [
  "/api/detect/batch/{jobId}/results", // by place in the batch
  "/v1/chat/completions", // oldest first, as OpenAI's
  "/v1/chat/completions/{id}/messages", // by place in the request
  "/v1/containers/{id}/files", // by the time of the last change
  "/v1/conversations/{id}/items", // by place in the conversation
  "/v1/datasets/{id}/rows", // by row_id
  "/v1/datasets/{id}/snapshots", // by number
  "/v1/datasets/{id}/snapshots/{snapshot}/diff/{other}", // by row_id
  "/v1/events", // oldest first
  "/v1/gpu", // by index
  "/v1/regions", // this machine first
  "/v1/responses/{id}/input_items", // by place in the request
  "/v1/rollouts/{id}/turns", // by number
  "/v1/traces/conversations", // its ids are the texts of clients
  "/v1/training_jobs/{id}/samples", // by step and number
  "/v1/vector_stores/{id}/file_batches/{batch}/files", // its ids are those of files
  "/v1/vector_stores/{id}/files", // likewise
  "/v1/volumes/{name}/files", // by path
];

test("P15 every list of the document is in this table", async () => {
  const document = openapi(await app.handle.routes());
  const { paths } = document as { paths: Record<string, { get?: { parameters?: { name: string }[] } }> };
  const lists = Object.entries(paths).filter(([, { get }]) => get?.parameters?.some(({ name }) => name === "after"));
  expect(lists.map(([path]) => path).sort()).toEqual([...LISTS.map(({ route }) => route), ...OTHER_ORDERS].sort());
});

describe.each(LISTS.map((list) => [list.route, list] as const))("%s", (_route, list) => {
  test("P15 cursor of a deleted item: the next page begins where it was", async () => {
    const [a, b, c, d] = rowsOf(list);
    const first = await get(app, list, "limit=2");
    expect([first.status, first.ids]).toEqual([200, [a!, b!]]);
    if (list.table !== "ledger_entries") remove(list, b!); // the ledger keeps every entry
    expect((await get(app, list, `limit=2&after=${b}`)).ids).toEqual([c!, d!]);
  });

  test("P15 cursor of the right kind that never existed is a position", async () => {
    const [, b, c] = rowsOf(list);
    const { status, ids } = await get(app, list, `limit=1&after=${before.get(b!)}`);
    expect([status, ids]).toEqual([200, [c!]]);
  });

  test("P15 a last page that is exactly full is the last one, and a page before it is not", async () => {
    rowsOf(list);
    const { ids, hasMore } = await get(app, list, "limit=100");
    expect([ids.length >= 4, hasMore]).toEqual([true, false]);
    const [whole, shorter] = [
      await get(app, list, `limit=${ids.length}`),
      await get(app, list, `limit=${ids.length - 1}`),
    ];
    expect([whole.ids, whole.hasMore]).toEqual([ids, false]);
    expect([shorter.ids, shorter.hasMore]).toEqual([ids.slice(0, -1), true]);
    const rest = await get(app, list, `limit=1&after=${ids.at(-2)}`);
    expect([rest.ids, rest.hasMore]).toEqual([ids.slice(-1), false]);
  });

  test("P15 malformed cursor is 400 invalid_cursor; limit outside 1..100 is 422, or 400 for OpenAI", async () => {
    for (const after of ["x", "", newId(list.prefix === "ws" ? "key" : "ws"), `${list.prefix}_short`]) {
      const { status, body } = await get(app, list, `after=${after}`);
      expect([status, body.error?.code, body.error?.param]).toEqual([400, "invalid_cursor", "after"]);
    }
    for (const limit of [0, 101, -1, "x", 1.5]) {
      const { status, body } = await get(app, list, `limit=${limit}`);
      const refusal = clientFormatOf(list.route) ? [400, "invalid_request_error"] : [422, "validation_error"];
      expect([status, body.error?.type, body.error?.param]).toEqual([...refusal, "limit"]);
    }
  });

  const planFor = async (query: string) => {
    const { sql } = await counting.of(() => get(app, list, query));
    const page = sql.filter((text) => text.includes(`from "${list.table}"`) && text.includes("order by"));
    expect(page.length).toBeGreaterThan(0);
    return page.flatMap((text) => planOf(app.ctx.db.$client, text)).join("\n");
  };

  test("D10 deep pages, D14 filters: the query seeks to its place in an index", async () => {
    const [, cursor] = rowsOf(list);
    const filters = Object.entries(list.filters ?? {}).map(([name, { value, column }]) => ({
      query: `${name}=${value}`,
      column,
    }));
    for (const { query, column } of [{ query: "limit=5", column: null }, ...filters]) {
      const plan = await planFor(`${query}&after=${cursor}`);
      expect(plan).not.toMatch(/SCAN|TEMP B-TREE/);
      // The first page of all workspaces reads the beginning of its index: there is no place to seek to.
      const first = (await planFor(query)).replace(/SCAN workspaces USING INDEX/, "");
      expect(first).not.toMatch(/SCAN|TEMP B-TREE/);
      if (column !== null) expect(first).toContain(`${column}=?`);
      expect(plan).toMatch(SEEKS[list.table] ?? /\(created_at,id\)<\(\?,\?\)/);
      if (column !== null) expect(plan).toContain(`${column}=?`);
    }
  });
});

describe.each(LISTS.flatMap((list) => (list.filters?.["status"] ? [[list.route, list] as const] : [])))(
  "%s?status=",
  (_route, list) => {
    test("P15 cursor of an item that left the filter: the next page begins where it was", async () => {
      const [a, b, c] = rowsOf(list);
      const wanted = `status=${list.filters?.["status"]?.value}`;
      expect((await get(app, list, `${wanted}&limit=2`)).ids).toEqual([a!, b!]);
      app.ctx.db.$client.run(`UPDATE ${list.table} SET status = 'failed' WHERE id = ?`, [b!]);
      expect((await get(app, list, `${wanted}&limit=1&after=${b}`)).ids).toEqual([c!]);
    });
  },
);

test("P15 cursor of a snapshot or a sample that does not exist is a position", async () => {
  const dataset = LISTS.find(({ table }) => table === "dataset_resolutions")?.at?.(app)["id"];
  const list = (after: string) => app.call("GET", `/v1/datasets/${dataset}/snapshots?after=${after}`);
  expect([(await list("@snap-9")).status, (await list("@snap-9")).body.data]).toEqual([200, []]);
  expect((await list("snap-9")).body.error.code).toBe("invalid_cursor");
  const job = LISTS.find(({ table }) => table === "training_checkpoints")?.at?.(app)["id"];
  expect((await app.call("GET", `/v1/training_jobs/${job}/samples?after=3-7`)).body.data).toEqual([]);
});
