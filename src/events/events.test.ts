import { afterEach, beforeEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { atEveryFailpoint, type TestApp, testApp } from "../../test/harness.ts";
import { durable, isDirty, type Tx, write } from "../platform/db/db.ts";
import { failpoints } from "../platform/failpoint.ts";
import { machine } from "../resources/access/workspaces/machine.ts";
import * as workspaces from "../resources/access/workspaces/service.ts";
import { consumer, prune } from "./consume.ts";
import { emit, onEvents } from "./emit.ts";
import { transition } from "./lifecycle.ts";
import { type EventRow, eventCursors, events } from "./table.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));

const cursorOf = (name: string) =>
  app.ctx.db.select().from(eventCursors).where(eq(eventCursors.consumer, name)).get()?.seq;
const rows = (on = app) => on.ctx.db.select().from(events).all();
const make = (name: string, on = app) => workspaces.create(on.ctx, { name, metadata: {} });

test("a repeated message is a no-op, not a second event", () => {
  const { id } = make("lab");
  const suspend = () => write(app.ctx.db, (tx) => transition(tx, machine, "suspend", { id, now: 5 }));
  expect(suspend()?.status).toBe("suspended");
  expect(suspend()).toBeUndefined();
  expect(rows().filter((e) => e.type === "workspace.suspended")).toHaveLength(1);
});

test("a rolled back change leaves no event and rings no bell", async () => {
  await durable(app.ctx.db);
  let rung = 0;
  const stop = onEvents(app.ctx.db, () => rung++);
  const before = rows().length;
  expect(() =>
    write(app.ctx.db, () => {
      make("lab");
      throw new Error("after all");
    }),
  ).toThrow("after all");
  expect(rows()).toHaveLength(before);
  make("lab");
  await durable(app.ctx.db);
  expect(rung).toBe(1);
  stop();
  make("other");
  await durable(app.ctx.db);
  expect(rung).toBe(1);
});

test("a payload keeps the fields of its type alone", () => {
  const data = { object: "workspace" as const, id: "ws_1", name: "n", status: "active", password: "hunter2" };
  write(app.ctx.db, (tx) => void emit(tx, "workspace.updated", { workspaceId: "ws_1", now: 1 }, data));
  expect(rows().at(-1)?.data).toEqual({ object: "workspace", id: "ws_1", name: "n", status: "active" });
});

test("wherever it crashes, a consumer takes every event exactly once", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const first = testApp();
    for (let i = 0; i < 5; i++) make(`w${i}`, first);
    first.ctx.db.$client.run("CREATE TABLE taken (id TEXT NOT NULL)");
    const next = consumer("test", { limit: 3 });
    const take = async (on: TestApp) => {
      const keep = (tx: Tx, batch: readonly EventRow[]) => {
        for (const event of batch) tx.$client.run("INSERT INTO taken VALUES (?)", [event.id]);
        return undefined;
      };
      while ((await next(on.ctx.db, 1, keep)) > 0);
    };
    await durable(first.ctx.db);
    await attempt(async () => {
      await take(first);
      await durable(first.ctx.db);
    });
    const after = testApp({ dir: first.dir });
    await take(after);
    const taken = after.ctx.db.$client.query("SELECT id FROM taken").all() as { id: string }[];
    expect(taken.map((t) => t.id)).toEqual(rows(after).map((e) => e.id));
    await after.close().then(after.remove);
  });
  expect(crashes).toBeGreaterThan(4);
});

test("a consumer hears only of what is on the disk", async () => {
  make("lab");
  expect(isDirty(app.ctx.db)).toBe(true);
  const order: string[] = [];
  failpoints.hit = (name) => void order.push(name);
  await consumer("test")(app.ctx.db, 1, () => void order.push("applied"));
  delete failpoints.hit;
  expect(order.indexOf("applied")).toBeGreaterThan(order.indexOf("db.after_flush"));
  expect(order).toContain("db.after_flush");
});

test("what a consumer does not want is passed by, and never comes again", async () => {
  const seen: string[][] = [];
  const take = consumer("picky", { limit: 2, wanted: eq(events.type, "workspace.suspended") });
  const next = () => take(app.ctx.db, 1, (_tx, batch) => void seen.push(batch.map(({ subjectId }) => subjectId)));
  const made = ["a", "b", "c", "d"].map((name) => make(name).id);
  expect(await next()).toBe(0);
  expect(cursorOf("picky")).toBe(rows().at(-1)!.seq);
  for (const id of made.slice(0, 3)) write(app.ctx.db, (tx) => transition(tx, machine, "suspend", { id, now: 5 }));
  make("e");
  expect(await next()).toBe(2);
  expect(cursorOf("picky")).toBe(rows().findLast(({ subjectId }) => subjectId === made[1])!.seq);
  expect(await next()).toBe(1);
  expect(await next()).toBe(0);
  expect(seen).toEqual([[made[0]!, made[1]!], [made[2]!]]);
  expect(cursorOf("picky")).toBe(rows().at(-1)!.seq);
});

test("one that takes a part of its batch gets the rest of it next", async () => {
  const ids = rows().map(({ id }) => id);
  const seen: string[] = [];
  const take = consumer("slow");
  const next = () => take(app.ctx.db, 1, (_tx, batch) => seen.push(batch[0]!.id) && 1);
  while ((await next()) > 0);
  expect(seen).toEqual(ids);
});

test("pruning spares what is young and what a consumer has not seen", async () => {
  const all = rows();
  const third = all[2]!;
  await consumer("slow", { limit: 3 })(app.ctx.db, 1, () => undefined);
  expect(cursorOf("slow")).toBe(third.seq);
  expect(await prune(app.ctx.db, 0)).toBe(0);
  expect(await prune(app.ctx.db, Date.now() + 1000)).toBe(3);
  expect(rows().map((e) => e.id)).toEqual(all.slice(3).map((e) => e.id));
});
