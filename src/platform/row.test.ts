import { expect, test } from "bun:test";
import { and, eq, ne, sql } from "drizzle-orm";
import { testApp } from "../../test/harness.ts";
import { apiKeys } from "../resources/api_keys/table.ts";
import { preparedRow } from "./row.ts";

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
