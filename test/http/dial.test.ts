import { afterEach, expect, test } from "bun:test";
import { DialError } from "../../src/platform/network/address.ts";
import { type TestApp, testApp } from "../harness.ts";
import { startReceiver } from "../receiver.ts";

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});
function open(flags: Record<string, unknown> = {}): TestApp {
  const app = testApp({ flags });
  stops.push(() => app.close().then(app.remove));
  return app;
}
function receiver(...args: Parameters<typeof startReceiver>) {
  const made = startReceiver(...args);
  stops.push(made.stop);
  return made;
}

test("outbound connections follow the operator's settings: this machine is refused unless it is listed", async () => {
  const target = receiver((_request, count) => new Response(`answer ${count}`));
  const request = { timeoutMs: 60_000, allowHttp: true, method: "POST", body: "hello" };
  await expect(open().ctx.dial(`${target.url}/hook`, request)).rejects.toBeInstanceOf(DialError);
  expect(target.received).toEqual([]);
  const answer = await open({ "network.allow": ["127.0.0.1"] }).ctx.dial(`${target.url}/hook`, request);
  expect(new TextDecoder().decode(answer.body)).toBe("answer 0");
  expect(target.received).toMatchObject([{ method: "POST", path: "/hook", body: "hello" }]);
});

test("a redirect inside is an answer, not a step", async () => {
  const inside = receiver();
  const outside = receiver(() => Response.redirect(inside.url, 302));
  const { ctx } = open({ "network.allow": ["127.0.0.1"] });
  expect((await ctx.dial(outside.url, { timeoutMs: 60_000, allowHttp: true })).status).toBe(302);
  expect(inside.received).toEqual([]);
});
