import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../../test/pretend_replica.ts";
import { generate } from "./generate.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

test("a replica learns the priority of a request: its own, that of its key, and never more than that of its key", async () => {
  const app = open({ parts: ["models"] });
  const { body: made } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  const seen: (string | null)[] = [];
  pretendServing(app, made.id, {
    worker: (report) => async (request) => {
      seen.push(request.headers.get("x-verk-priority"));
      report({ request: request.headers.get("x-verk-request")! });
      return Response.json(chatAnswer("hello"));
    },
  });
  const messages = [{ role: "user" as const, content: "hi" }];
  const { body: slow } = await app.call("POST", "/v1/api_keys", { name: "nightly", priority: "batch" });
  const ask = async (key: string, more: object) => {
    const { status } = await app.call("POST", "/v1/chat/completions", { model: "d", messages, ...more }, { key });
    expect(status).toBe(200);
  };
  for (const key of [app.keyA, slow.key])
    for (const more of [{}, { priority: "interactive" }, { priority: "rollout" }]) await ask(key, more);
  expect(seen.splice(0)).toEqual(["normal", "interactive", "rollout", "batch", "batch", "rollout"]);

  const { signal } = new AbortController();
  const by = { workspaceId: app.workspaceA, deploymentId: made.id, messages, params: {}, signal };
  await generate(app.ctx, { ...by, background: true });
  expect(seen).toEqual(["batch"]);
});
