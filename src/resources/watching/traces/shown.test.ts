import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";
import { newId } from "../../../lib/ids.ts";
import { durable, isDirty } from "../../../platform/db/db.ts";
import { failpoints } from "../../../platform/failpoint.ts";
import * as traces from "./service.ts";

const { open, closeAll } = manyApps();
afterEach(() => {
  delete failpoints.hit;
  return closeAll();
});

function recorded(app: ReturnType<typeof open>): string {
  const id = newId("trc", app.ctx.clock.now());
  const times = { startedAt: app.ctx.clock.now(), durationMs: 10, spans: [] };
  const more = { source: "chat" as const, capture: "metadata" as const, status: 200, conversationId: "c1" };
  traces.record(app.ctx, { ...times, ...more, id, workspaceId: app.workspaceA });
  return id;
}
const PATHS = [
  "/v1/traces",
  "/v1/traces/ID",
  "/v1/traces/export",
  "/v1/traces/conversations",
  "/v1/traces/conversations/c1",
];

test.each(PATHS)("R7: %s shows a trace that is on the disk", async (path) => {
  const app = open();
  const id = recorded(app);
  const { status, body } = await app.call("GET", path.replace("ID", id));
  expect([status, isDirty(app.ctx.db)]).toEqual([200, false]);
  expect(JSON.stringify(body)).toContain(path.endsWith("/conversations") ? "c1" : id);
});

test.each(PATHS.filter((path) => !path.endsWith("export")))(
  "R7: %s shows no trace whose commit is lost",
  async (path) => {
    const app = open();
    await app.call("GET", path.replace("ID", newId("trc"))); // loads the routes: a loop could store the trace meanwhile
    await durable(app.ctx.db);
    const id = recorded(app);
    failpoints.hit = (name) => {
      if (name === "db.before_commit") throw new Error("power cut");
    };
    const { status, body } = await app.call("GET", path.replace("ID", id));
    expect([200, 500]).toContain(status); // 200: the loop that stores traces came first and lost the commit
    expect(JSON.stringify(body)).not.toContain(id);
    delete failpoints.hit;
  },
);

test("R7: a score of a trace that is still in memory is on the disk with its trace", async () => {
  const app = open();
  const id = recorded(app);
  const { status } = await app.call("POST", `/v1/traces/${id}/scores`, { name: "fine", value: 1 });
  expect([status, isDirty(app.ctx.db)]).toEqual([201, false]);
  expect((await app.call("GET", `/v1/traces/${id}`)).body.scores).toHaveLength(1);
});
