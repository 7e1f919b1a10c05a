import { afterEach, expect, test } from "bun:test";
import { Elysia } from "elysia";
import { manyApps } from "../../test/harness.ts";
import { errorResponse } from "./answer/errors.ts";
import { auditLog } from "./audit.ts";
import { area } from "./auth.ts";
import { requestIdOf, setMade, stateOf } from "./request_state.ts";
import type { Port, Routes } from "./route_groups.ts";
import { createHandler } from "./server.ts";

const { open, closeAll } = manyApps();
const portOf = (routes: Routes): Port => ({ groups: [{ at: [], load: () => [routes] }], answers: errorResponse });
afterEach(closeAll);

test("requests that are served at the same time keep their route, caller and id apart", async () => {
  const app = open();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { authed } = area(app.ctx, "training");
  const routes = new Elysia().use(authed).post("/things/:number", async ({ request, params }) => {
    await gates[Number(params.number)]?.promise;
    setMade(request, { id: `thing_${params.number}` });
    return { id: requestIdOf(request) };
  });
  const handle = createHandler(
    app.ctx,
    portOf(() => routes),
  );
  const requests = [app.keyA, app.keyB].map(
    (key, i) =>
      new Request(`http://localhost/things/${i}`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "x-request-id": `request-${i}` },
      }),
  );
  const answers = requests.map((request) => handle(request));
  expect(requests.map((request) => stateOf(request).principal?.workspaceId)).toEqual([app.workspaceA, app.workspaceB]);
  for (const gate of gates.toReversed()) {
    gate.resolve();
    await new Promise(setImmediate);
  }
  for (const [i, answer] of answers.entries()) {
    const response = await answer;
    expect(response.headers.get("x-request-id")).toBe(`request-${i}`);
    expect(await response.json()).toEqual({ id: `request-${i}` });
  }
  const rows = app.ctx.db.select().from(auditLog).all();
  const recorded = rows.filter(({ path }) => path.startsWith("/things/"));
  expect(recorded.map(({ workspaceId, path, made }) => [workspaceId, path, made]).sort()).toEqual(
    [
      [app.workspaceA, "/things/0", "thing_0"],
      [app.workspaceB, "/things/1", "thing_1"],
    ].sort(),
  );
});

test("a key that one area has admitted is checked again by another", async () => {
  const app = open();
  const { key } = app.keyOf("gamma", ["training"]);
  const training = area(app.ctx, "training");
  const admin = area(app.ctx, "admin");
  const routes = new Elysia()
    .use(training.authed)
    .use(admin.authed)
    .post("/both", () => ({ ok: true }));
  const handle = createHandler(
    app.ctx,
    portOf(() => routes),
  );
  const headers = { authorization: `Bearer ${key}` };
  expect((await handle(new Request("http://localhost/both", { method: "POST", headers }))).status).toBe(403);
});
