/** Deployments of the executable with a real model: many at once, and killed. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { violations } from "../fault/invariants.ts";
import { until } from "../harness.ts";
import { startServing } from "../serving/served.ts";

let server: Awaited<ReturnType<typeof startServing>>;

beforeAll(async () => {
  server = await startServing({ models: { random: { arch: "qwen3", type: "F16", context: 2048 } } });
}, 120_000);
afterAll(() => server?.stop());

const body = (name: string, more: object = {}) => ({
  model: name,
  messages: [{ role: "user", content: "Say something long." }],
  temperature: 0,
  ...more,
});
const stream = async (id: string, request: object): Promise<Response> =>
  await fetch(`${server.url}/v1/deployments/${id}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
    body: JSON.stringify({ ...request, stream: true }),
  });
const eventsIn = (text: string) =>
  text
    .split("\n\n")
    .filter((block) => block.startsWith("data: "))
    .map((block) => block.slice(6));
const textOf = (events: string[]) =>
  events
    .filter((event) => event !== "[DONE]")
    .map((event) => JSON.parse(event).choices?.[0]?.delta?.content ?? "")
    .join("");

test("64 streams at once are complete and unmixed", async () => {
  const id = await server.deploy({ model: "random", name: "many", parallel: 16, context_length: 256 });
  const prompt = (i: number) => ({
    ...body("many", { max_tokens: 24 }),
    messages: [{ role: "user", content: `Number ${i % 8}, please.` }],
  });
  const alone: string[] = [];
  for (let i = 0; i < 8; i++) alone.push(textOf(eventsIn(await (await stream(id, prompt(i))).text())));
  expect(new Set(alone).size).toBe(8);
  const texts = await Promise.all(
    Array.from({ length: 64 }, async (_, i) => {
      const events = eventsIn(await (await stream(id, prompt(i))).text());
      expect(events.at(-1)).toBe("[DONE]");
      return textOf(events);
    }),
  );
  expect(texts).toEqual(texts.map((_, i) => alone[i % 8] as string));
  await server.call("POST", `/v1/deployments/${id}/stop`);
}, 120_000);

test("kill -9 of the worker mid-stream: an error event, unhealthy, and one recovery", async () => {
  const id = await server.deploy({ model: "random", name: "killed", parallel: 2, context_length: 2048 });
  const answer = await stream(id, body("killed", { max_tokens: 2000 }));
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  const [pid] = server.workers();
  process.kill(pid as number, "SIGKILL");
  let rest = "";
  for (let next = await reader.read(); !next.done; next = await reader.read())
    rest += new TextDecoder().decode(next.value);
  const last = JSON.parse(eventsIn(rest).at(-1) as string);
  expect(last.error).toMatchObject({ type: "api_error", code: "worker_failed", param: null });
  await until("the recovery", async () => (await server.events(id)).length === 4, 30_000);
  expect((await server.events(id)).toReversed()).toEqual([
    "deployment.serving",
    "deployment.unhealthy",
    "deployment.serving",
    "deployment.created",
  ]);
  expect(
    (await server.call("POST", `/v1/deployments/${id}/chat/completions`, body("killed", { max_tokens: 2 }))).status,
  ).toBe(200);
  expect(server.workers()).toHaveLength(1);
  await server.call("POST", `/v1/deployments/${id}/stop`);
}, 120_000);

test("kill -9 of the server: no process is left, and the deployment serves again after the restart", async () => {
  const id = await server.deploy({ model: "random", name: "survivor", parallel: 1, context_length: 2048 });
  const [before] = server.workers();
  await stream(id, body("survivor", { max_tokens: 2000 }));
  await server.kill();
  await until("its worker to be gone", () => server.workers().length === 0);
  expect(violations(server.dir)).toEqual([]);
  await server.restart();
  await server.reaches(id, "serving");
  expect(server.workers()).toHaveLength(1);
  expect(server.workers()[0]).not.toBe(before as number);
  const answer = await server.call(
    "POST",
    `/v1/deployments/${id}/chat/completions`,
    body("survivor", { max_tokens: 2 }),
  );
  expect(answer.status).toBe(200);
}, 120_000);

test("a thousand requests wake a parked model once, and all are answered by it", async () => {
  const settings = {
    min_replicas: 0,
    idle_timeout_seconds: 1,
    max_held_requests: 2000,
    parallel: 8,
    context_length: 256,
  };
  const id = await server.deploy({ model: "random", name: "sleeper", ...settings });
  await until("it to be parked", async () => (await server.get(`/v1/deployments/${id}`)).parked);
  await server.call("PATCH", `/v1/deployments/${id}`, { idle_timeout_seconds: 600 });
  const before = (await server.get(`/v1/deployments/${id}`)).total_requests;
  const answers = await Promise.all(
    Array.from({ length: 1000 }, () =>
      server.call("POST", `/v1/deployments/${id}/chat/completions`, body("sleeper", { max_tokens: 1 })),
    ),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map((answer) => answer.body.choices[0].message.content)).size).toBe(1); // greedy, one prompt
  expect((await server.events(id)).toReversed().filter((type) => type !== "deployment.updated")).toEqual([
    "deployment.serving",
    "deployment.scaled_to_zero",
    "deployment.serving",
    "deployment.created",
  ]);
  const counted = async () => (await server.get(`/v1/deployments/${id}`)).total_requests === before + 1000;
  await until("all to be counted", counted);
  await server.call("POST", `/v1/deployments/${id}/stop`);
}, 120_000);
