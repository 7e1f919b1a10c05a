// tier: all (serves models)
/** The worker as the server starts it, with a model of random weights, over its socket. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020";
import addFormats from "ajv-formats";
import OpenAI from "openai";
import { systemClock } from "../../src/platform/clock.ts";
import { createLog } from "../../src/platform/log.ts";
import { createSupervisor, type Supervisor } from "../../src/platform/workers/supervisor.ts";
import type { Worker } from "../../src/platform/workers/types.ts";
import { FromServing, type ToServing } from "../../src/workers/protocol.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { CONFINED, confinedIn, seenOf } from "../sandbox/confined.ts";
import { randomSchema } from "./random_schema.ts";

const CONTEXT = 1_024;
const QUOTE = 34; // the models of the tests have a token for each byte
const messages = [{ role: "user" as const, content: "Tell me something." }];
const dir = tempDir();
const said: FromServing[] = [];
const log = createLog({ level: "error", write: () => {} });
let supervisor: Supervisor;
let worker: Worker<FromServing, ToServing>;
let openai: OpenAI;

beforeAll(async () => {
  const program = [process.execPath, resolve(import.meta.dir, "../../src/main.ts")];
  const limits = { silence_ms: 20_000, stop_grace_ms: 5_000, stderr_tail_bytes: 8_192 };
  const env = { PATH: process.env["PATH"], HOME: dir };
  const locations = { socketDir: join(dir, "run"), confine: confinedIn(dir) };
  supervisor = createSupervisor({ log, clock: systemClock, ...locations, env, program, ...limits });
  worker = supervisor.spawn({
    kind: "serving",
    incoming: FromServing,
    onMessage: (message) => void said.push(message),
  });
  await worker.ready;
  const model_path = worker.link(makeModel(dir, { arch: "llama", type: "F32", context: CONTEXT })) as string;
  const shape = { context_length: CONTEXT, parallel: 4, threads: 1, gpus: [], hurry: false };
  worker.send({ type: "load", data_dir: dir, model_path, ...shape });
  await until("the model to be loaded", () => said.some((message) => message.type === "loaded"), 30_000);
  const overSocket = (url: string | URL | Request, init?: RequestInit) =>
    fetch(url, { ...init, unix: worker.socketPath } as RequestInit);
  openai = new OpenAI({ apiKey: "none", baseURL: "http://worker", maxRetries: 0, fetch: overSocket as typeof fetch });
}, 120_000);
afterAll(async () => {
  await supervisor.stopAll("test over");
  rmSync(dir, { recursive: true, force: true });
});

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
const get = async (path: string): Promise<any> =>
  (await fetch(`http://worker${path}`, { unix: worker.socketPath } as RequestInit)).json();

test("loading reports its stages in order, and the loaded model", () => {
  const stages = said.flatMap((message) => (message.type === "loading" ? [message.stage] : []));
  expect([...new Set(stages)]).toEqual(["loading", "warming"]);
  expect(said.find((message) => message.type === "loaded")).toMatchObject({ context_length: CONTEXT, parallel: 4 });
});

test("M6: the process that serves a stranger's model is confined", () => {
  expect(seenOf(worker.pid)).toMatchObject(CONFINED);
});

test("health is a decode", async () => {
  const before = (await get("/stats")).decode_calls;
  expect(await get("/health")).toMatchObject({ decoded: true, decode_ms: expect.any(Number) });
  expect((await get("/stats")).decode_calls).toBeGreaterThan(before);
});

test("a stream has the text, the logprobs and the usage of the whole answer", async () => {
  const request = { model: "m", messages, max_tokens: 24, temperature: 0, logprobs: true, top_logprobs: 2 };
  const whole = await openai.chat.completions.create(request);
  const stream = await openai.chat.completions.create({
    ...request,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let logprobs = 0;
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    logprobs += chunk.choices[0]?.logprobs?.content?.length ?? 0;
    usage = chunk.usage ?? usage;
  }
  expect(text).toBe(whole.choices[0]?.message.content as string);
  expect(logprobs).toBe(24);
  expect(whole.choices[0]?.logprobs?.content).toHaveLength(24);
  expect(usage?.completion_tokens).toBe(24);
  expect(usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(0);
});

test("stop ends the answer before itself", async () => {
  const request = { model: "m", messages, max_tokens: 40, temperature: 0 };
  const whole = (await openai.chat.completions.create(request)).choices[0]?.message.content as string;
  const stop = whole.slice(10, 13);
  const cut = await openai.chat.completions.create({ ...request, stop });
  expect(cut.choices[0]?.message.content).toBe(whole.slice(0, whole.indexOf(stop)));
  expect(cut.choices[0]?.finish_reason).toBe("stop");
});

test("a request for more answers than the model has sequences gets all answers", async () => {
  const { choices, usage } = await openai.chat.completions.create({
    model: "m",
    messages,
    n: 7,
    max_tokens: 9,
    temperature: 0,
  });
  expect(new Set(choices.map((choice) => choice.message.content)).size).toBe(1);
  expect(choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(usage?.completion_tokens).toBe(63);
});

test("streams that run together have the text that each has alone", async () => {
  const request = (i: number) => ({ model: "m", prompt: `the story ${i} of`, max_tokens: 20, temperature: 0 });
  const alone: string[] = [];
  for (let i = 0; i < 32; i++) alone.push((await openai.completions.create(request(i))).choices[0]?.text as string);
  const streamed = async (i: number) => {
    let text = "";
    for await (const chunk of await openai.completions.create({ ...request(i), stream: true }))
      text += chunk.choices[0]?.text ?? "";
    return text;
  };
  expect(await Promise.all(alone.map((_, i) => streamed(i)))).toEqual(alone);
  expect(new Set(alone).size).toBeGreaterThan(8);
});

test("a client that leaves frees its slot before its answer ends, and is reported", async () => {
  const request = { model: "m", messages, temperature: 0, stream: true as const };
  const stream = await openai.chat.completions.create(request);
  for await (const _chunk of stream) break; // the client closes the connection
  await until("the slot to be free", async () => (await get("/stats")).active === 0);
  await until("the report", () => said.some((message) => message.type === "served" && message.status === 499));
});

test("a prompt that does not fit is refused with both numbers", async () => {
  const long = [{ role: "user" as const, content: "x".repeat(CONTEXT * 2) }];
  const refused = async () => await openai.chat.completions.create({ model: "m", messages: long });
  await expect(refused()).rejects.toThrow(/context holds 1024/);
});

test("text that the model writes under a random schema satisfies the schema", async () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  let whole = 0;
  for (let seed = 1; seed <= 60; seed++) {
    const schema = randomSchema(mulberry(seed)) as Record<string, unknown>;
    const { choices } = await openai.chat.completions.create({
      model: "m",
      messages,
      seed,
      max_tokens: 600,
      logit_bias: { [QUOTE]: 8 }, // otherwise a string of random letters rarely ends
      response_format: { type: "json_schema", json_schema: { name: "s", schema, strict: true } },
    });
    if (choices[0]?.finish_reason === "length") continue;
    whole++;
    const valid = ajv.compile(schema);
    const value: unknown = JSON.parse(choices[0]?.message.content as string);
    if (!valid(value)) throw new Error(JSON.stringify([valid.errors, value, schema]));
  }
  expect(whole).toBeGreaterThan(40);
}, 120_000);

test("a required call has arguments that satisfy the parameters", async () => {
  const parameters = {
    type: "object",
    properties: { city: { type: "string", maxLength: 12 }, days: { type: "integer", minimum: 1, maximum: 7 } },
    required: ["city", "days"],
    additionalProperties: false,
  };
  const { choices } = await openai.chat.completions.create({
    model: "m",
    messages,
    max_tokens: 300,
    tools: [{ type: "function", function: { name: "weather", parameters } }],
    tool_choice: { type: "function", function: { name: "weather" } },
  });
  const call = choices[0]?.message.tool_calls?.[0];
  if (call?.type !== "function") throw new Error(JSON.stringify(choices));
  expect(call.function.name).toBe("weather");
  expect(new Ajv2020().compile(parameters)(JSON.parse(call.function.arguments))).toBe(true);
  expect(choices[0]?.finish_reason).toBe("tool_calls");
});

test("completions and embeddings", async () => {
  const { choices } = await openai.completions.create({
    model: "m",
    prompt: ["hello", "the"],
    max_tokens: 5,
    echo: true,
  });
  expect(choices.map((choice) => choice.text.slice(0, 3))).toEqual(["hel", "the"]);
  const { data } = await openai.embeddings.create({ model: "m", input: ["hello", "hello", "other"] });
  const length = Math.hypot(...(data[0]?.embedding ?? []));
  expect(length).toBeCloseTo(1, 4);
  expect(data[0]?.embedding).toEqual(data[1]?.embedding as number[]);
});

test("a client that leaves n answers is reported with the tokens of all of them", async () => {
  const decoded = (await get("/stats")).completion_tokens;
  const stream = await openai.chat.completions.create(
    { model: "m", messages, n: 4, max_tokens: 900, seed: 1, stream: true },
    { headers: { "x-verk-request": "req_four" } },
  );
  let chunks = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.index === 3 && ++chunks === 100) break;
  stream.controller.abort();
  const report = await until("the report", () => said.find((m) => m.type === "served" && m.request === "req_four"));
  expect((report as { completion_tokens: number }).completion_tokens).toBeGreaterThan(
    0.4 * ((await get("/stats")).completion_tokens - decoded),
  );
});

test("a worker that is stopped in the middle of a stream ends it with an error and exits in time", async () => {
  // More answers than sequences: the last ones still wait when the first are over.
  const request = { model: "m", messages, n: 16, max_tokens: 900, seed: 1, stream: true as const };
  const stream = await openai.chat.completions.create(request);
  const reading = (async () => {
    for await (const _chunk of stream);
  })();
  await until("the stream to run", async () => (await get("/stats")).active >= 1);
  const exit = worker.stop("the test is over");
  await expect(reading).rejects.toThrow();
  expect(await exit).toMatchObject({ kind: "stopped", forced: false });
});

function mulberry(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
