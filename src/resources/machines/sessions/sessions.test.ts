import { afterEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { manyApps, type TestApp } from "../../../../test/harness.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { StorageError } from "../../../platform/files.ts";
import { CreateSession } from "./schema.ts";
import * as sessions from "./service.ts";
import { sessions as table } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const create = (app: TestApp) =>
  write(app.ctx.db, (tx) => sessions.create(app.ctx, tx, app.workspaceA, CreateSession.parse({}))).id;
const codeOf = async (app: TestApp) => {
  const { status, body } = await app.call("POST", "/v1/sessions", {});
  return [status, body.error?.code];
};

test("D12 full disk: creating a session is 503, as every other write", async () => {
  const app = open({ flags: { "storage.min_free_bytes": Number.MAX_SAFE_INTEGER } });
  expect(await codeOf(app)).toEqual([503, "storage_unavailable"]);
});

test("D12 full disk: a check of the host that the disk made fail is 503, and is made again by the next call", async () => {
  const app = open();
  const full = new StorageError(app.dir, "write", Object.assign(new Error(), { code: "ENOSPC" }));
  const answer = Promise.reject<never>(full);
  answer.catch(() => {});
  app.ctx.state.sessions.support = { at: app.ctx.clock.now(), answer };
  expect(await codeOf(app)).toEqual([503, "storage_unavailable"]);
  expect(app.ctx.state.sessions.support).toBeUndefined();
});

test("D15 ended sessions: rows are removed after sessions.retention_days, once their files are gone", async () => {
  const app = open();
  const { db } = app.ctx;
  const now = 100 * DAY_MS;
  const end = (endedAt: number, removedAt: number | null) => {
    const id = create(app);
    write(db, (tx) => tx.update(table).set({ status: "stopped", endedAt, removedAt }).where(eq(table.id, id)).run());
    return id;
  };
  const old = end(now - 31 * DAY_MS, now - 31 * DAY_MS);
  const kept = [end(now - 29 * DAY_MS, now - 29 * DAY_MS), end(now - 31 * DAY_MS, null), create(app)];
  expect(await sessions.prune(app.ctx, now - 30 * DAY_MS)).toBe(1);
  expect(sessions.find(app.ctx, old)).toBeUndefined();
  const left = (await app.call("GET", "/v1/sessions")).body.data.map(({ id }: { id: string }) => id);
  expect(left.sort()).toEqual(kept.sort());
  expect(app.ctx.config.sessions.retention_days).toBe(30);
});
