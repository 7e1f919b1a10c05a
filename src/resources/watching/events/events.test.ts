import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type TestApp, testApp, until } from "../../../../test/harness.ts";
import { planOf } from "../../../../test/row_counter.ts";
import { failpoints } from "../../../platform/failpoint.ts";
import * as secrets from "../../access/secrets/service.ts";
import * as service from "./service.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

const make = async (name: string, key = app.keyA) =>
  (await app.call("POST", "/v1/api_keys", { name }, { key })).body.id as string;
const list = (query = "", key = app.keyA) => app.call("GET", `/v1/events${query}`, undefined, { key });
type Item = { id: string; type: string; data: { id: string } };

/** Reads a stream's messages as they come. */
function follow(query: string, headers: Record<string, string> = {}) {
  const request = new Request(`http://localhost/v1/events?stream=1${query}`, {
    headers: { authorization: `Bearer ${app.keyA}`, ...headers },
  });
  let text = "";
  const done = Promise.withResolvers<void>();
  const started = (async () => {
    const response = await app.handle(request);
    const reader = response.body!.getReader();
    void (async () => {
      for (;;) {
        const { value, done: over } = await reader.read();
        if (over) return done.resolve();
        text += new TextDecoder().decode(value);
      }
    })();
    return () => reader.cancel();
  })();
  return {
    started,
    ended: done.promise,
    ids: () => [...text.matchAll(/^id: (\S+)$/gm)].map((m) => m[1]),
    text: () => text,
  };
}

describe("GET /v1/events", () => {
  test("goes forward from a cursor, oldest first, and only through this workspace", async () => {
    const made = [await make("one"), await make("two"), await make("three")];
    await make("foreign", app.keyB);
    const all = (await list()).body;
    const about = (items: Item[]) => items.map((e) => e.data.id).filter((id) => made.includes(id));
    expect(about(all.data)).toEqual(made);
    expect(all.data.every((e: Item) => !JSON.stringify(e).includes("foreign"))).toBe(true);
    const second = all.data.find((e: Item) => e.data.id === made[1]);
    const rest = (await list(`?after=${second.id}`)).body;
    expect(rest.data.map((e: Item) => e.data.id)).toEqual([made[2]!]);
    expect((await list("?limit=1")).body).toMatchObject({ has_more: true, data: { length: 1 } });
  });

  test("can be narrowed to types; an unknown type or a malformed cursor is refused", async () => {
    const id = await make("one");
    await app.call("DELETE", `/v1/api_keys/${id}`);
    expect((await list("?types=api_key.revoked")).body.data.map((e: Item) => e.type)).toEqual(["api_key.revoked"]);
    const both = (await list("?types=api_key.created,api_key.revoked&limit=100")).body.data as Item[];
    expect(new Set(both.map((e) => e.type))).toEqual(new Set(["api_key.created", "api_key.revoked"]));
    expect(await list("?types=api_key.exploded")).toMatchObject({ status: 422, body: { error: { param: "types" } } });
    for (const after of ["evt_none", "first", app.workspaceA])
      expect((await list(`?after=${after}`)).body.error.code).toBe("invalid_cursor");
  });

  test("can be read back, newest first, also by type", async () => {
    const made = [await make("one"), await make("two"), await make("three")];
    const back = async (query: string) => (await list(`?order=desc&${query}`)).body;
    const about = (items: Item[]) => items.map(({ data }) => data.id);
    const first = await back("limit=2&types=api_key.created");
    expect([about(first.data), first.has_more]).toEqual([[made[2], made[1]] as string[], true]);
    const rest = await back(`limit=2&types=api_key.created,api_key.revoked&after=${first.data[1].id}`);
    expect(about(rest.data)[0]).toBe(made[0] as string);
    const [forward, backward] = [
      (await list("?limit=100")).body.data as Item[],
      (await back("limit=100")).data as Item[],
    ];
    expect(about(backward)).toEqual(about(forward).reverse());
    expect((await back("after=latest&limit=1")).data).toEqual(backward.slice(0, 1));
    expect((await list("?order=desc&stream=1")).body.error.param).toBe("order");
  });

  test("P15 cursor of an event past retention, or of another workspace: the feed continues behind its place", async () => {
    const [one, two, three] = [await make("one"), await make("two"), await make("three")];
    const all = (await list()).body.data as Item[];
    const second = all.find((e) => e.data.id === two)?.id as string;
    app.ctx.db.$client.run("DELETE FROM events WHERE id <= ?", [second]);
    expect((await list(`?after=${second}`)).body.data.map((e: Item) => e.data.id)).toEqual([three!]);
    const foreignKey = await make("foreign", app.keyB);
    const four = await make("four");
    const foreign = (await list("?limit=100", app.keyB)).body.data.find((e: Item) => e.data.id === foreignKey).id;
    expect((await list(`?after=${foreign}`)).body.data.map((e: Item) => e.data.id)).toEqual([four]);
    expect(one).toBeString();
  });

  test("D14 a feed of some types is read from an index, however many others there are", async () => {
    await make("one");
    const query = { workspaceId: app.workspaceA, afterSeq: 0, types: ["api_key.created", "api_key.revoked"], limit: 5 };
    const seen: string[] = [];
    const { $client } = app.ctx.db;
    const prepare = $client.prepare.bind($client);
    $client.prepare = ((sql: string) => {
      seen.push(sql);
      return prepare(sql);
    }) as typeof $client.prepare;
    app.ctx.db.$prepared.clear();
    expect(service.readPage(app.ctx, query).rows.length).toBeGreaterThan(0);
    const plans = seen.map((sql) => planOf($client, sql).join("; "));
    expect(plans.join("\n")).toContain(
      "USING COVERING INDEX events_by_type (workspace_id=? AND type=? AND seq>? AND seq<?)",
    );
    for (const plan of plans) expect(plan.replace("SCAN json_each", "")).not.toContain("SCAN");
  });

  test("begins behind all there are with after=latest, and only with what comes then", async () => {
    await make("before");
    expect((await list("?after=latest")).body.data).toEqual([]);
    const stream = follow("&after=latest");
    const leave = await stream.started;
    await make("then");
    await until("what came then", () => stream.text().includes("then"));
    expect(stream.text()).not.toContain("before");
    await leave();
  });

  test("tells a stream where it begins, so that who is cut off before the first event misses none", async () => {
    await make("before");
    const stream = follow("&after=latest");
    const leave = await stream.started;
    const place = await until("its place", () => stream.ids()[0]);
    await leave();
    await make("meanwhile");
    const missed = (await list(`?after=${place}`)).body.data as Item[];
    expect(missed.map(({ data }) => data)).toMatchObject([{ name: "meanwhile" }]);
  });

  test("has the ids and shape that a webhook would deliver, and no secret", async () => {
    const { key } = (await app.call("POST", "/v1/api_keys", { name: "x" })).body;
    const last = (await list("?limit=100")).body.data.at(-1);
    expect(last).toMatchObject({ object: "event", type: "api_key.created", data: { object: "api_key", name: "x" } });
    expect(last.id).toStartWith("evt_");
    expect(JSON.stringify(last)).not.toContain(key);
  });
});

describe("GET /v1/events?stream=1", () => {
  test("sends what was, then what happens, and goes on where a lost connection ended", async () => {
    await make("before");
    const first = follow("");
    const leave = await first.started;
    await until("the past", () => first.text().includes("before"));
    await make("during");
    await until("the present", () => first.text().includes("during"));
    await leave();
    await make("meanwhile");
    const second = follow("", { "last-event-id": first.ids().at(-1)! });
    const leaveAgain = await second.started;
    await until("what was missed", () => second.text().includes("meanwhile"));
    expect(second.text()).not.toContain("during");
    await leaveAgain();
  });

  test("a burst arrives whole and in order", async () => {
    const stream = follow("&types=api_key.revoked");
    const leave = await stream.started;
    const ids = await Promise.all(Array.from({ length: 150 }, (_, i) => make(`k${i}`)));
    await Promise.all(ids.map((id) => app.call("DELETE", `/v1/api_keys/${id}`)));
    await until("150 events", () => stream.ids().length === 150);
    expect(stream.ids()).toEqual([...stream.ids()].sort());
    await leave();
  });

  test("ends with the key that opened it, and sends nothing after that", async () => {
    const stream = follow("");
    await stream.started;
    const account = (await app.call("GET", "/v1/account")).body;
    await app.call("DELETE", `/v1/api_keys/${account.key.id}`);
    await make("not for the revoked", app.keyOf("alpha", ["*"]).key);
    await stream.ended;
    expect(stream.text()).not.toContain("not for the revoked");
    expect(stream.text()).not.toContain("api_key.revoked");
  });

  test("ends with its workspace", async () => {
    const stream = follow("");
    await stream.started;
    await app.call("POST", `/v1/workspaces/${app.workspaceA}/suspend`, undefined, { key: app.adminKey });
    await stream.ended;
    expect(stream.text()).not.toContain("workspace.suspended");
  });

  test("never tells of an event whose commit is lost", async () => {
    failpoints.hit = (name) => {
      if (name === "db.before_commit") throw new Error("the disk is gone");
    };
    secrets.put(app.ctx, app.workspaceA, "LOST", { value: "x" }); // its commit is open until this turn ends
    const from = { workspaceId: app.workspaceA, afterSeq: 0, types: ["secret.created"] };
    const told = service.follow(app.ctx, from, new AbortController().signal).next();
    await expect(told).rejects.toThrow("the disk is gone");
    delete failpoints.hit;
  });
});
