import { afterAll, beforeAll, expect, test } from "bun:test";
import { Ollama } from "ollama";
import { type FakeRepo, startFakeHub } from "../../../../test/fake_hub.ts";
import { takesPushes } from "../../../../test/fake_hub_pushes.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";

const repos: Record<string, FakeRepo> = {};
const hub = takesPushes(repos, { token: "hf_write" });
const server = startFakeHub(repos, hub);
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({
    loops: ["hub_pushes.run"],
    flags: { "hub.endpoint": server.url, "network.allow": ["127.0.0.1"], "storage.min_free_bytes": 0 },
  });
  await clientOf(app.keyA).create({ model: "acme/random", from: "random" });
});
afterAll(() => app.close().then(app.remove).then(server.stop));

const clientOf = (key: string) =>
  new Ollama({
    host: "http://localhost",
    headers: { authorization: `Bearer ${key}` },
    fetch: ((url: string, init: RequestInit) => app.handle(new Request(url, init))) as typeof fetch,
  });
const refusalOf = (call: Promise<unknown>) => call.then(String, String);

test("a push without a token, of no model or to no repository is refused in words", async () => {
  const client = clientOf(app.keyA);
  expect(await refusalOf(client.push({ model: "acme/random" }))).toContain("HUB_TOKEN");
  expect(await refusalOf(client.push({ model: "acme/none" }))).toContain("acme/none");
  expect(await refusalOf(client.push({ model: "random" }))).toContain("must be owner/name");
});

test("a key for inference alone pushes nothing", async () => {
  const { key } = app.keyOf("alpha", ["inference"]);
  expect(await refusalOf(clientOf(key).push({ model: "acme/random" }))).toContain("lacks the scope for training");
});

test("a push reports its steps, and the hub has the file", async () => {
  await app.call("PUT", "/v1/secrets/HUB_TOKEN", { value: "hf_write", scope_host: "127.0.0.1" });
  const steps: object[] = [];
  for await (const step of await clientOf(app.keyA).push({ model: "acme/random:latest", stream: true }))
    steps.push(step);
  expect([steps[0], steps.at(-1)]).toEqual([{ status: "retrieving manifest" }, { status: "success" }]);
  expect(Object.keys(repos["acme/random"]?.files ?? {}).sort()).toEqual(["README.md", "random.gguf"]);
  expect((await clientOf(app.keyA).push({ model: "acme/random" })).status).toBe("success");
}, 60_000);

test("a push that the hub refuses ends the stream with its words", async () => {
  hub.trouble = (step) => (step === "commit" ? Response.json({ error: "no more room" }, { status: 403 }) : undefined);
  const stream = await clientOf(app.keyA).push({ model: "acme/random", stream: true });
  const read = async () => {
    for await (const _ of stream);
  };
  expect(await refusalOf(read())).toContain("no more room");
}, 60_000);
