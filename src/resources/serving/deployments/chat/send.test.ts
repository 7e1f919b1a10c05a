import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import { eventsOf, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { until } from "../../../../../test/harness.ts";
import { liveOf, readyOf } from "../fleet/fleet.ts";

const CHAT = { model: "d", messages: [{ role: "user", content: "hi" }] };
const { open: app, closeAll } = manyDeploying();
afterEach(closeAll);

test("S1 retry: a replica dies before it answers; the next one answers, with one record and one count", async () => {
  const on = await app({ lives: [{ dieAfter: 0 }, {}] });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const answer = await on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT);
  expect([answer.status, answer.body.choices[0].message.content]).toEqual([200, "w0 w1 w2 "]);
  const metrics = await until("its count", async () => {
    const { body } = await on.call("GET", `/v1/deployments/${id}/metrics`);
    return body.total_requests > 0 ? body : undefined;
  });
  expect(metrics).toMatchObject({ total_requests: 1, total_prompt_tokens: 5, total_completion_tokens: 3 });
  expect((await on.call("GET", `/v1/deployments/${id}/requests`)).body.data).toHaveLength(1);
  expect(eventsOf(on, id)).toContain("deployment.unhealthy");
});

test("S1 retry: a request that loses two replicas gets an error, and the deployment recovers", async () => {
  const on = await app({ lives: [{ dieAfter: 0 }, { dieAfter: 0 }, {}] });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const answer = await on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT);
  expect([answer.status, answer.body.error.code]).toEqual([502, "worker_failed"]);
  await until("the third start", () => on.starts().length === 3);
  await on.reaches(id, "serving");
});

test("S1 retry: a client that has left is not answered again", async () => {
  const on = await app();
  on.relive([{ gapMs: 5, lasts: join(on.dir, "never") }, {}]);
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const client = new AbortController();
  const headers = { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(CHAT), signal: client.signal };
  const answer = on.handle(new Request(`http://localhost/v1/deployments/${id}/chat/completions`, init));
  const [replica] = liveOf(on.ctx, id).replicas;
  await until("its replica to have it", () => replica?.host.pendingUsage.size === 1);
  client.abort();
  process.kill(replica!.host.worker.pid, "SIGKILL");
  await answer;
  await until("the next replica", () => on.starts().length === 2);
  await on.reaches(id, "serving");
  const records = await until("its record", async () => {
    const { data } = (await on.call("GET", `/v1/deployments/${id}/requests`)).body;
    return data.length > 0 ? data : undefined;
  });
  expect(records).toMatchObject([{ status_code: 499 }]);
  expect([...liveOf(on.ctx, id).replicas].map(({ inflight }) => inflight)).toEqual([0]);
});

test("S1 retry: a request is not held for a deployment that was stopped", async () => {
  const on = await app();
  on.relive([{ gapMs: 5, lasts: join(on.dir, "never") }]);
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const answer = on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT);
  const [replica] = liveOf(on.ctx, id).replicas;
  await until("its replica to have it", () => replica?.host.pendingUsage.size === 1);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  expect((await answer).body.error).toMatchObject({ code: "unsupported_state" });
  expect(on.starts()).toHaveLength(1);
});

test("S1 retry: another replica that serves answers instead", async () => {
  const on = await app({ lives: [{ dieAfter: 0 }, {}] });
  const id = await on.deploy({ min_replicas: 2, max_replicas: 2 });
  await until("both replicas", () => readyOf(liveOf(on.ctx, id)).length === 2);
  const ask = () => on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT);
  const answers = await Promise.all([ask(), ask()]); // one for each replica
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(eventsOf(on, id)).toEqual(["deployment.created", "deployment.serving"]);
  await until("the lost process to be gone", () => liveOf(on.ctx, id).replicas.size === 1);
});
