import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyDeploying } from "../../../../../test/fake_replicas.ts";
import { fakeClock, until } from "../../../../../test/harness.ts";
import { ClientLeft } from "../../../../lib/net/client_left.ts";
import { liveOf } from "../fleet/fleet.ts";
import * as moves from "../fleet/moves.ts";
import type { DeploymentRow } from "../table.ts";
import { Flight } from "./flight.ts";

const CHAT = { model: "d", messages: [{ role: "user", content: "hi" }] };
const { open: app, closeAll } = manyDeploying();
afterEach(closeAll);

test("a client that leaves frees its place before its answer ends, and is recorded", async () => {
  const on = await app({ lives: [{ words: 100_000, gapMs: 2 }] });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const server = Bun.serve({ port: 0, fetch: (request) => on.handle(request) });
  const client = new AbortController();
  const answer = await fetch(`${server.url}v1/deployments/${id}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" },
    body: JSON.stringify({ ...CHAT, stream: true }),
    signal: client.signal,
  });
  await answer.body?.getReader().read();
  const [replica] = liveOf(on.ctx, id).replicas;
  expect(replica?.inflight).toBe(1);
  client.abort();
  await until("its place to be free", () => replica?.inflight === 0);
  const record = await until("its record", async () => {
    const { body } = await on.call("GET", `/v1/deployments/${id}/requests`);
    return body.data[0];
  });
  expect(record).toMatchObject({ status_code: 499, prompt_tokens: 5 });
  expect((await on.call("GET", `/v1/deployments/${id}/metrics`)).body.error_rate).toBe(0);
  await server.stop(true);
});

test("R4: a client that leaves is neither a warning nor a lost replica, with a stream or without one", async () => {
  const on = await app();
  on.relive([{ gapMs: 5, lasts: join(on.dir, "never") }]);
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const [replica] = liveOf(on.ctx, id).replicas;
  const headers = { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" };
  for (const stream of [false, true]) {
    const client = new AbortController();
    const init = { method: "POST", headers, body: JSON.stringify({ ...CHAT, stream }), signal: client.signal };
    const answer = on.handle(new Request(`http://localhost/v1/deployments/${id}/chat/completions`, init));
    await until("its replica to have it", () => replica?.inflight === 1);
    client.abort();
    await (await answer).text();
    await until("its place to be free", () => replica?.inflight === 0);
  }
  const records = await until("both records", async () => {
    const { data } = (await on.call("GET", `/v1/deployments/${id}/requests`)).body;
    return data.length === 2 ? data : undefined;
  });
  expect(records.map(({ status_code }: { status_code: number }) => status_code)).toEqual([499, 499]);
  expect(on.log.filter((line) => /"level":"(warn|error)"|replica that answered/.test(line))).toEqual([]);
});

test("a client that leaves while it waits is forgotten", async () => {
  const on = await app({ lives: [{ gate: "/nonexistent/never" }] });
  const id = await on.deploy();
  await on.reaches(id, "provisioning");
  const client = new AbortController();
  const headers = { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(CHAT), signal: client.signal };
  const answer = on.handle(new Request(`http://localhost/v1/deployments/${id}/chat/completions`, init));
  await until("it to be held", () => liveOf(on.ctx, id).held.size === 1);
  client.abort();
  await until("it to be forgotten", () => liveOf(on.ctx, id).held.size === 0);
  await answer;
});

test("a request that was broken off before the worker saw it is recorded all the same", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const row = moves.current(on.ctx.db, id) as DeploymentRow;
  const live = liveOf(on.ctx, id);
  const [replica] = live.replicas;
  const flight = new Flight(on.ctx, row, { path: "/chat/completions", body: CHAT, keyId: "" }, () => {});
  flight.attach(replica!.acquire());
  const left = new ClientLeft();
  flight.abort(left);
  await expect(flight.send()).rejects.toBe(left);
  expect(replica?.host.pendingUsage.size).toBe(1);
  flight.finish({ status: 499, error: "the client left" });
  flight.finish({ status: 200, error: null }); // only the first end counts
  expect(replica?.inflight).toBe(0);
  await until("its record", async () => {
    clock.advance(1_000);
    return (await on.call("GET", `/v1/deployments/${id}/requests`)).body.data.length === 1;
  });
  expect(replica?.host.pendingUsage.size).toBe(0);
});

test("a stream that finds the house full gets the status 429, not a stream", async () => {
  const on = await app({ lives: [{ gate: "/nonexistent/never" }] });
  const id = await on.deploy({ max_held_requests: 0 });
  const full = await on.call("POST", `/v1/deployments/${id}/chat/completions`, { ...CHAT, stream: true });
  expect([full.status, full.headers.get("retry-after")]).toEqual([429, "5"]);
});

test("stopping breaks off what is being answered, and says why", async () => {
  const on = await app({ lives: [{ words: 100_000, gapMs: 2 }] });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const answer = on.call("POST", `/v1/deployments/${id}/chat/completions`, { ...CHAT, stream: true });
  await until("it to be answered", () => liveOf(on.ctx, id).flights.size === 1);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  expect(
    (await answer).body.error ?? JSON.parse((await answer).body.trim().split("data: ").at(-1)).error,
  ).toMatchObject({
    code: "unsupported_state",
  });
});

test("a stream whose client leaves unread when its replica comes releases that replica", async () => {
  const on = await app({ lives: [{ gate: "" }] });
  const gate = join(on.dir, "go");
  on.relive([{ gate }]);
  const id = await on.deploy();
  await on.reaches(id, "provisioning");
  const headers = { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify({ ...CHAT, stream: true }) };
  const unread = await on.handle(new Request(`http://localhost/v1/deployments/${id}/chat/completions`, init));
  await until("it to be held", () => liveOf(on.ctx, id).held.size === 1);
  writeFileSync(gate, "");
  const [replica] = liveOf(on.ctx, id).replicas;
  await until("it to have the replica", () => replica?.inflight === 1);
  await unread.body?.cancel();
  await until("its place to be free", () => replica?.inflight === 0);
});
