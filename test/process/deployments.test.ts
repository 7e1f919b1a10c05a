// tier: all (serves models)
/** Deployments of the executable with a real model: many at once, and killed. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { rowsAreIndependent } from "../serving/batch_bits.ts";
import { startServing } from "../serving/served.ts";

let server: Awaited<ReturnType<typeof startServing>>;

const RANDOM = { arch: "qwen3", type: "F16", context: 2048 } as const;
const independent = rowsAreIndependent(makeModel(tempDir(), RANDOM));

beforeAll(async () => {
  server = await startServing({ models: { random: RANDOM } });
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

type Token = { token: string; logprob: number; top_logprobs: { token: string; logprob: number }[] };
const tokensOf = (events: string[]): Token[] =>
  events
    .filter((event) => event !== "[DONE]")
    .flatMap((event) => JSON.parse(event).choices?.[0]?.logprobs?.content ?? []);

/**
 * Two greedy texts may differ only at a token where both choices are about equally likely: batching changes rounding.
 */
function expectSameUpToTie(got: Token[], want: Token[]) {
  expect(got.length).toBe(24);
  const at = want.findIndex(({ token }, i) => token !== got[i]?.token);
  if (at < 0) return;
  const rival = want[at]!.top_logprobs.find(({ token }) => token === got[at]!.token);
  expect(rival, `token ${at} is not among the most likely of the text alone`).toBeDefined();
  expect(want[at]!.logprob - rival!.logprob).toBeLessThan(0.05);
}

test("64 streams at once are complete and unmixed", async () => {
  const id = await server.deploy({ model: "random", name: "many", parallel: 16, context_length: 256 });
  const prompt = (i: number) => ({
    ...body("many", { max_tokens: 24 }),
    messages: [{ role: "user", content: `Number ${i % 8}, please.` }],
    ...(independent ? {} : { logprobs: true, top_logprobs: 5 }),
  });
  const ask = async (i: number) => eventsIn(await (await stream(id, prompt(i))).text());
  const alone: string[][] = [];
  for (let i = 0; i < 8; i++) alone.push(await ask(i));
  expect(new Set(alone.map(textOf)).size).toBe(8);
  const all = await Promise.all(Array.from({ length: 64 }, (_, i) => ask(i)));
  await server.call("POST", `/v1/deployments/${id}/stop`);
  expect(new Set(all.map((events) => events.at(-1)))).toEqual(new Set(["[DONE]"]));
  if (independent) expect(all.map(textOf)).toEqual(all.map((_, i) => textOf(alone[i % 8]!)));
  else for (const [i, events] of all.entries()) expectSameUpToTie(tokensOf(events), tokensOf(alone[i % 8]!));
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
