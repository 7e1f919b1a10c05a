import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import * as setup from "../../src/resources/access/setup/service.ts";
import { fakeClock, manyApps, type TestApp } from "../harness.ts";
import { JOURNEY } from "../meta/journey.ts";

const { open, closeAll } = manyApps();
const HOUR_MS = 3_600_000;
let app: TestApp;
let clock: ReturnType<typeof fakeClock>;
beforeEach(() => {
  clock = fakeClock();
  app = open({ clock });
});
afterEach(closeAll);

describe("a GET that reveals a secret", () => {
  const endpoint = async () => (await app.call("POST", "/v1/webhooks", { url: "https://203.0.114.7/" })).body.id;
  const entries = () =>
    app.ctx.db.$client
      .query<{ key_id: string; status: number; address: string | null; path: string }, []>(
        "SELECT key_id, status, path FROM audit_log WHERE method = 'GET'",
      )
      .all();

  test("is in the audit log when the caller gets the answer", async () => {
    const id = await endpoint();
    const { status, body } = await app.call("GET", `/v1/webhooks/${id}/secret`);
    expect([status, typeof body.secret]).toEqual([200, "string"]);
    expect(entries()).toMatchObject([{ status: 200, path: `/v1/webhooks/${id}/secret` }]);
    const shown = (await app.call("GET", "/v1/account/audit_log")).body.data;
    expect(shown[0]).toMatchObject({ method: "GET", route: "/v1/webhooks/{id}/secret", resource_ids: { id } });
    expect(JSON.stringify(shown)).not.toContain(body.secret);
  });

  test("shows nothing if the entry cannot be stored", async () => {
    const id = await endpoint();
    app.ctx.db.$client.run("CREATE TRIGGER no_audit BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'full'); END");
    const { status, body } = await app.call("GET", `/v1/webhooks/${id}/secret`);
    expect([status >= 500, JSON.stringify(body).includes("whsec_")]).toEqual([true, false]);
  });

  test("is the only one: no other GET of the document has a secret in its answer", () => {
    const gets = JOURNEY.map(({ operation }) => operation).filter((each) =>
      /^GET .*(secret|token|reveal|private)/.test(each),
    );
    expect([...new Set(gets)].sort()).toEqual([
      "GET /v1/secrets",
      "GET /v1/secrets/{name}",
      "GET /v1/webhooks/{id}/secret",
    ]);
  });
});

describe("the setup token", () => {
  const redeem = (token: string | undefined) => app.call("POST", "/setup", { token }, { key: null });
  beforeEach(() => app.ctx.db.$client.run("DELETE FROM api_keys"));

  test("works for 24 hours and no longer; the answer says how to get another", async () => {
    const { setupToken } = setup.prepare(app.ctx);
    clock.advance(24 * HOUR_MS);
    const { status, body } = await redeem(setupToken);
    expect([status, body.error.code]).toEqual([401, "invalid_api_key"]);
    expect(body.error.message).toContain("expired");
    expect(body.error.message).toContain("verk keys create --scope admin");
  });

  test("still works a moment before its end", async () => {
    const { setupToken } = setup.prepare(app.ctx);
    clock.advance(24 * HOUR_MS - 1);
    expect((await redeem(setupToken)).status).toBe(201);
  });

  test("of a later restart is new, and the old token stays invalid", async () => {
    const old = setup.prepare(app.ctx).setupToken;
    clock.advance(25 * HOUR_MS);
    const { setupToken } = setup.prepare(app.ctx);
    expect((await redeem(old)).status).toBe(401);
    expect((await redeem(setupToken)).status).toBe(201);
  });
});
