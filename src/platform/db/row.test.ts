import { expect, test } from "bun:test";
import { and, eq, ne, sql } from "drizzle-orm";
import { testApp } from "../../../test/harness.ts";
import { apiKeys } from "../../resources/access/api_keys/table.ts";
import { workspaces } from "../../resources/access/workspaces/table.ts";
import { write } from "./db.ts";
import { changeRow, isPlain, preparedRow } from "./row.ts";

test("a prepared row is what drizzle itself would give, nulls and JSON included", async () => {
  const app = testApp();
  const byId = preparedRow(apiKeys, and(eq(apiKeys.id, sql.placeholder("id")), ne(apiKeys.status, "revoked")));
  const keys = app.ctx.db.select().from(apiKeys).all();
  expect(keys.length).toBeGreaterThan(2);
  for (const key of keys) expect(byId(app.ctx.db, { id: key.id })).toEqual(key);
  expect(byId(app.ctx.db, { id: "key_none" })).toBeUndefined();
  const mine = keys.find((key) => key.workspaceId === app.workspaceA);
  await app.call("DELETE", `/v1/api_keys/${mine?.id}`);
  expect(byId(app.ctx.db, { id: mine?.id ?? "" })).toBeUndefined();
  await app.close().then(app.remove);
});

test("a changed row equals the row in the database, and changes only from the given states", async () => {
  const app = testApp();
  const id = app.workspaceA;
  const stored = () => app.ctx.db.select().from(workspaces).where(eq(workspaces.id, id)).get();
  const change = (from: string[], set: Record<string, unknown>) =>
    write(app.ctx.db, (tx) => changeRow(tx, workspaces, { id, from, set }));
  const before = stored();
  expect(change(["suspended", "deleted"], { status: "active", metadata: {} })).toBeUndefined();
  expect(stored()).toEqual(before);
  const changed = change(["active", "suspended"], { status: "suspended", metadata: { a: "1" }, name: undefined });
  expect(changed).toEqual({ ...before!, status: "suspended", metadata: { a: "1" } });
  expect(stored()).toEqual(changed);
  const [first] = app.ctx.db.select().from(apiKeys).where(eq(apiKeys.workspaceId, id)).all();
  const set = { expiresAt: null, status: "active" };
  const key = write(app.ctx.db, (tx) => changeRow(tx, apiKeys, { id: first!.id, from: ["active"], set }));
  expect(key).toEqual(first);
  expect([isPlain(set), isPlain({ ...set, name: sql`'x'` })]).toEqual([true, false]);
  await app.close().then(app.remove);
});

test("a row that is changed without a read changes like one that is read, and only from the given states", async () => {
  const app = testApp();
  const id = app.workspaceA;
  const stored = () => app.ctx.db.select().from(workspaces).where(eq(workspaces.id, id)).get();
  const put = (from: string[], set: Record<string, unknown>) =>
    write(app.ctx.db, (tx) => changeRow(tx, workspaces, { id, from, set }, "unread"));
  const before = stored();
  expect(put(["suspended", "deleted"], { status: "active", metadata: {} })).toBe(false);
  expect(stored()).toEqual(before);
  expect(put(["active", "suspended"], { status: "suspended", metadata: { a: "1" }, name: undefined })).toBe(true);
  expect(stored()).toEqual({ ...before!, status: "suspended", metadata: { a: "1" } });
  await app.close().then(app.remove);
});
