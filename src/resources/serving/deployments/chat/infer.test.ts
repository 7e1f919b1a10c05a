import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../../test/pretend_replica.ts";
import { liveOf } from "../fleet/fleet.ts";
import { mustGet } from "../service.ts";
import { inferWhole } from "./infer.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const MESSAGES = [{ role: "user", content: "hi" }];

async function serving(flags: Record<string, unknown> = {}) {
  const app = open({ parts: ["models"], flags });
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  const models: unknown[] = [];
  pretendServing(app, body.id, {
    answer(_path, { model }: { model: string }) {
      models.push(model);
      return chatAnswer("hello");
    },
  });
  return { app, row: mustGet(app.ctx, app.workspaceA, body.id), models };
}

test("a plain description of a request is enough, and a request without a model has the name of the deployment", async () => {
  const { app, row, models } = await serving();
  const caller = new AbortController();
  const body = { messages: MESSAGES, stream: false };
  const call = { path: "/chat/completions" as const, body, keyId: null, signal: caller.signal };
  const answered = await inferWhole(app.ctx, row, call);
  expect([answered.status, JSON.parse(answered.text).choices[0].message.content]).toEqual([200, "hello"]);
  expect(models).toEqual(["d"]);
  caller.abort();
  const late = inferWhole(app.ctx, row, call);
  expect(late).rejects.toThrow("The client left");
  await Promise.allSettled([late]);
  expect(liveOf(app.ctx, row.id).flights.size).toBe(0);
});

test("a stream that is refused because of its adapter does not count as open", async () => {
  const { app } = await serving({ "http.max_streams_per_key": 1 });
  const chat = { model: "d", messages: MESSAGES, stream: true, lora: [{ id: "none", scale: 1 }] };
  for (let i = 0; i < 3; i++) expect((await app.call("POST", "/v1/chat/completions", chat)).status).toBe(404);
});
