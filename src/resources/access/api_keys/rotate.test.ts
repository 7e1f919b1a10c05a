import { afterAll, beforeAll, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { addUser, signedIn } from "../../../../test/people_kit.ts";

let clock: ReturnType<typeof fakeClock>;
let app: TestApp;
beforeAll(() => {
  clock = fakeClock();
  app = testApp({ clock });
});
afterAll(() => app.close().then(app.remove));

const HOUR_MS = 3_600_000;
const make = async (json: object = {}, key = app.keyA) =>
  (await app.call("POST", "/v1/api_keys", { name: "bot", ...json }, { key })).body as { id: string; key: string };
const rotate = (id: string, json: object = {}, key = app.keyA) =>
  app.call("POST", `/v1/api_keys/${id}/rotate`, json, { key });
const works = async (key: string) => (await app.call("GET", "/v1/account", undefined, { key })).status === 200;

test("the new key has the same rights, and the old one works until the grace period is over", async () => {
  const old = await make({ scopes: ["training"], monthly_budget_usd: 5, metadata: { team: "a" } });
  const { status, body } = await rotate(old.id, { grace_hours: 2 });
  expect(status).toBe(201);
  expect(body).toMatchObject({ name: "bot", scopes: ["training"], monthly_budget_usd: 5, metadata: { team: "a" } });
  expect([await works(old.key), await works(body.key)]).toEqual([true, true]);
  clock.advance(2 * HOUR_MS);
  expect([await works(old.key), await works(body.key)]).toEqual([false, true]);
  expect((await rotate(old.id)).status).toBe(400);
});

test("without a grace period the old key stops at once", async () => {
  const old = await make();
  const { body } = await rotate(old.id, { grace_hours: 0 });
  expect([await works(old.key), await works(body.key)]).toEqual([false, true]);
});

test("a key that expires gets the same life again; a grace period never makes the old one live longer", async () => {
  const end = new Date(clock.now() + 10 * HOUR_MS).toISOString();
  const old = await make({ expires_at: end });
  clock.advance(9 * HOUR_MS);
  const { body } = await rotate(old.id);
  expect(Date.parse(body.expires_at) - clock.now()).toBe(10 * HOUR_MS);
  clock.advance(HOUR_MS);
  expect([await works(old.key), await works(body.key)]).toEqual([false, true]);
});

test("no caller gets more than it has: scopes, life, budget, or a key of another person", async () => {
  const admin = app.keyOf("alpha", ["admin"]);
  expect((await rotate(admin.row.id)).status).toBe(403);
  const end = new Date(clock.now() + HOUR_MS).toISOString();
  const [short, forever] = [await make({ expires_at: end }), await make()];
  expect((await rotate(forever.id, {}, short.key)).body.expires_at).toBe(end);
  expect((await rotate(short.id, {}, short.key)).body.expires_at).toBe(end); // not by rotating itself either
  const poor = await make({ monthly_budget_usd: 1 });
  expect((await rotate((await make({ monthly_budget_usd: 9 })).id, {}, poor.key)).status).toBe(403);
  const browser = await signedIn(app, addUser(app, { role: "admin" }).email);
  const own = (await browser.call("POST", "/v1/api_keys", { name: "mine" })).body;
  expect((await rotate(own.id)).status).toBe(403);
  expect((await browser.call("POST", `/v1/api_keys/${own.id}/rotate`, {})).status).toBe(201);
});
