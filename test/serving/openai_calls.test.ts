// tier: all (serves models)
/** Calls of the `openai` client that no other file makes, unchanged, against the executable; and those that are refused. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import OpenAI, { toFile } from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { tempDir, until } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const CALL = `<tool_call>\n${JSON.stringify({ name: "get_weather", arguments: { city: "Oslo" } })}\n</tool_call>`;
const FINAL = "There is rain over Oslo today.";
const City = z.object({ city: z.enum(["Oslo", "Bergen"]) });
const messages = [{ role: "user" as const, content: "What is the weather in Oslo?" }];

let server: Awaited<ReturnType<typeof startServing>>;
let openai: OpenAI;
let folder: string;
beforeAll(async () => {
  folder = tempDir();
  server = await startServing({ files: { recorded: recordedModel(folder, [CALL, FINAL], 4096) } });
  await server.deploy({ model: "recorded", name: "demo", parallel: 4, context_length: 2048 });
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
  connect();
}, 120_000);
function connect() {
  openai = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
}
afterAll(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const weather = {
  type: "function" as const,
  function: { name: "get_weather", parameters: z.toJSONSchema(City) as Record<string, unknown> },
};
const hidden = {
  type: "function" as const,
  function: { name: "hide", parameters: { type: "object", properties: {} } },
};
const refusalOf = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error);

test("openai chat: the request id, one model, JSON without a schema", async () => {
  const request = { model: "tiny", messages, max_tokens: 24 };
  const whole = await openai.chat.completions.create(request);
  expect(whole._request_id).toMatch(/^[\w-]{16,}$/);
  expect((await openai.models.retrieve("tiny")).id).toBe("tiny");
  const json = await openai.chat.completions.create({ ...request, response_format: { type: "json_object" } });
  if (json.choices[0]?.finish_reason === "stop") expect(JSON.parse(json.choices[0].message.content ?? "")).toBeObject();
  expect(json.choices[0]?.message.content).toStartWith("{");
}, 60_000);

test("openai chat: parse with zod, a schema with references, unions and null", async () => {
  const Node = z.object({ name: z.enum(["a", "b"]), weight: z.union([z.literal(1), z.null()]) });
  const Tree = z.object({ left: Node, right: Node, kind: z.union([z.literal("x"), z.literal("y")]) });
  const response_format = zodResponseFormat(Tree, "tree");
  const { choices } = await openai.chat.completions.parse({ model: "tiny", messages, response_format });
  expect(Tree.safeParse(choices[0]?.message.parsed).success).toBe(true);
  const schema = {
    type: "object",
    properties: { a: { $ref: "#/$defs/city" }, b: { anyOf: [{ $ref: "#/$defs/city" }, { type: "null" }] } },
    required: ["a", "b"],
    additionalProperties: false,
    $defs: { city: { type: "string", enum: ["Oslo", "Bergen"] } },
  };
  const referring = await openai.chat.completions.create({
    model: "tiny",
    messages,
    response_format: { type: "json_schema", json_schema: { name: "cities", strict: true, schema } },
  });
  const { a, b } = JSON.parse(referring.choices[0]?.message.content ?? "");
  expect([["Oslo", "Bergen"].includes(a), ["Oslo", "Bergen", null].includes(b)]).toEqual([true, true]);
}, 60_000);

test("openai chat: a named tool, a streamed call, several results in one turn", async () => {
  const request = { model: "demo", messages, tools: [weather, hidden] };
  const named = await openai.chat.completions.create({
    ...request,
    tool_choice: { type: "function", function: { name: "get_weather" } },
  });
  expect(named.choices[0]?.message.tool_calls).toMatchObject([{ function: { name: "get_weather" } }]);
  let text = "";
  for await (const { choices } of await openai.chat.completions.create({ ...request, stream: true }))
    text += choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? "";
  expect(JSON.parse(text)).toEqual({ city: "Oslo" });
  const calls = ["call_1", "call_2"].map((id) => ({
    id,
    type: "function" as const,
    function: { name: "get_weather", arguments: '{"city":"Oslo"}' },
  }));
  const results = calls.map(({ id }) => ({ role: "tool" as const, tool_call_id: id, content: "rain" }));
  const answered = await openai.chat.completions.create({
    ...request,
    messages: [...messages, { role: "assistant", tool_calls: calls }, ...results],
    parallel_tool_calls: true,
  });
  expect(answered.choices[0]?.message.content).toBe(FINAL);
  const none = await openai.chat.completions.create({ ...request, model: "tiny", tool_choice: "none", max_tokens: 4 });
  expect(none.choices[0]?.message.tool_calls).toBeUndefined();
  const parsed = await openai.chat.completions.parse({
    ...request,
    tools: [zodFunction({ name: "get_weather", parameters: City })],
  });
  const [call] = parsed.choices[0]?.message.tool_calls ?? [];
  expect(call).toMatchObject({ function: { parsed_arguments: { city: "Oslo" } } });
}, 60_000);

test("openai: a completion as a stream and with a suffix, one embedding, floats and dimensions", async () => {
  let text = "";
  const completion = { model: "tiny", prompt: "Once", max_tokens: 4, temperature: 0 };
  for await (const { choices } of await openai.completions.create({ ...completion, stream: true }))
    text += choices[0]?.text;
  expect(text).toBe((await openai.completions.create(completion)).choices[0]?.text ?? "");
  expect(await refusalOf(openai.completions.create({ ...completion, suffix: "end" }))).toMatchObject({
    status: 400,
    param: "/suffix",
  });
  const one = await openai.embeddings.create({ model: "tiny", input: "one", encoding_format: "float" });
  expect(Math.hypot(...(one.data[0]?.embedding ?? []))).toBeCloseTo(1, 3);
  const short = await openai.embeddings.create({ model: "tiny", input: "one", dimensions: 8 });
  expect(short.data[0]?.embedding).toHaveLength(8);
}, 60_000);

test("openai responses: tokens of the input, a parsed answer, a streamed call, tools of the provider, cancel", async () => {
  const base = { model: "tiny", input: "What is 7 + 5?", max_output_tokens: 32 };
  expect((await openai.responses.inputTokens.count({ model: "tiny", input: base.input })).input_tokens).toBeGreaterThan(
    3,
  );
  const parsed = await openai.responses.parse({ ...base, text: { format: zodTextFormat(City, "city") } });
  expect(City.safeParse(parsed.output_parsed).success).toBe(true);
  const tool = {
    type: "function" as const,
    name: "get_weather",
    strict: false,
    parameters: weather.function.parameters,
  };
  const stream = openai.responses.stream({ model: "demo", input: "Oslo?", tools: [tool] });
  let text = "";
  for await (const event of stream) if (event.type === "response.function_call_arguments.delta") text += event.delta;
  expect(JSON.parse(text)).toEqual({ city: "Oslo" });
  const [call] = (await stream.finalResponse()).output;
  if (call?.type !== "function_call") throw new Error("no call");
  const output = { type: "function_call_output" as const, call_id: call.call_id, output: "rain" };
  const user = { role: "user" as const, content: "Oslo?" };
  const next = await openai.responses.create({ model: "demo", input: [user, call, output], tools: [tool] });
  expect(next.output_text).toBe(FINAL);
  const searched = openai.responses.create({ ...base, instructions: "Be brief.", tools: [{ type: "web_search" }] });
  const { response, data } = await searched.withResponse();
  expect([response.headers.get("warning")?.includes("web_search"), data.object]).toEqual([true, "response"]);
  const { id } = await openai.responses.create({ ...base, background: true });
  expect(["cancelled", "completed", "incomplete"]).toContain((await openai.responses.cancel(id)).status as string);
}, 60_000);

test("openai: a file is read and deleted, a batch is listed and cancelled", async () => {
  const line = { custom_id: "a", method: "POST", url: "/v1/completions", body: { model: "tiny", prompt: "Once" } };
  const upload = async () =>
    openai.files.create({ file: await toFile(Buffer.from(JSON.stringify(line)), "in.jsonl"), purpose: "batch" });
  const file = await upload();
  expect((await openai.files.retrieve(file.id)).filename).toBe("in.jsonl");
  expect((await openai.files.delete(file.id)).deleted).toBe(true);
  expect(await refusalOf(openai.files.retrieve(file.id))).toBeInstanceOf(OpenAI.NotFoundError);
  const input_file_id = (await upload()).id;
  const batch = await openai.batches.create({ input_file_id, endpoint: "/v1/completions", completion_window: "24h" });
  expect((await openai.batches.list()).data.map(({ id }) => id)).toEqual([batch.id]);
  expect(["cancelling", "cancelled", "completed"]).toContain((await openai.batches.cancel(batch.id)).status);
}, 60_000);

test("openai: jobs of each method are created, listed and cancelled; a run of an eval is cancelled", async () => {
  await until("verk-tiny", async () => (await server.get("/v1/models/verk-tiny")).status === "ready", 60_000);
  const upload = async (rows: object[]) =>
    openai.files.create({
      file: await toFile(Buffer.from(rows.map((row) => JSON.stringify(row)).join("\n")), "train.jsonl"),
      purpose: "fine-tune",
    });
  const said = (content: string) => [{ role: "assistant" as const, content }];
  const pair = { input: { messages }, preferred_output: said("12"), non_preferred_output: said("13") };
  const grader = {
    type: "string_check" as const,
    name: "same",
    operation: "eq" as const,
    input: "{{sample.output_text}}",
    reference: "{{item.answer}}",
  };
  const { jobs } = openai.fineTuning;
  const model = "verk-tiny";
  const dpo = await jobs.create({
    model,
    training_file: (await upload([pair, pair])).id,
    method: { type: "dpo", dpo: { hyperparameters: { n_epochs: 1, batch_size: 2 } } },
  });
  const reinforcement = await jobs.create({
    model,
    training_file: (await upload([{ messages, answer: "12" }])).id,
    method: { type: "reinforcement", reinforcement: { grader, hyperparameters: { n_epochs: 50 } } },
  });
  expect((await jobs.list()).data.map(({ id }) => id)).toEqual([reinforcement.id, dpo.id]);
  expect((await jobs.pause(reinforcement.id)).id).toBe(reinforcement.id);
  await jobs.cancel(reinforcement.id);
  for (const [{ id }, status] of [
    [dpo, "succeeded"],
    [reinforcement, "cancelled"],
  ] as const)
    await until(`${id} to be ${status}`, async () => (await jobs.retrieve(id)).status === status, 120_000);
  // biome-ignore lint/suspicious/noExplicitAny: the types of the client are too deep for the compiler
  const evals = openai.evals as any;
  const data_source_config = { type: "custom", item_schema: { type: "object" } };
  const { id: eval_id } = await evals.create({ data_source_config, testing_criteria: [grader] });
  const content = [{ item: { answer: "12" }, sample: { output_text: "12" } }];
  const run = await evals.runs.create(eval_id, {
    data_source: { type: "jsonl", source: { type: "file_content", content } },
  });
  expect((await evals.runs.cancel(run.id, { eval_id })).id).toBe(run.id);
}, 240_000);

test("openai: a vector store is embedded and searched by a deployment, also after a kill", async () => {
  const metadata = { embedding_model: "tiny" };
  const store = await openai.vectorStores.create({ name: "notes", metadata });
  const texts = ["Ada lives in Oslo.", "The ship sails at noon.", "Twelve is three times four."];
  const files = await Promise.all(texts.map((text, i) => toFile(Buffer.from(text), `${i}.txt`)));
  const batch = await openai.vectorStores.fileBatches.uploadAndPoll(store.id, { files });
  expect(batch.file_counts).toMatchObject({ completed: 3, failed: 0 });
  const lines = Array.from({ length: 400 }, (_, i) => `Line ${i} of a long text.`).join("\n");
  const long = await openai.vectorStores.files.upload(store.id, await toFile(Buffer.from(lines), "long.txt"));
  await server.kill(); // while it is embedded
  await server.restart();
  connect(); // the port is another one
  expect((await openai.vectorStores.list()).data.map(({ id }) => id)).toEqual([store.id]);
  expect((await openai.vectorStores.files.poll(store.id, long.id)).status).toBe("completed");
  const [best] = (await openai.vectorStores.search(store.id, { query: texts[1] as string })).data;
  expect(best).toMatchObject({ filename: "1.txt", content: [{ type: "text", text: texts[1] }] });
  expect(best?.score).toBeCloseTo(1, 3);
  await openai.vectorStores.delete(store.id);
}, 120_000);

/** Families that this server lacks. `docs/clients.md` has the same list. */
const LACKING: [name: string, call: (file: File) => PromiseLike<unknown>, words: string][] = [
  ["audio.speech", () => openai.audio.speech.create({ model: "tts-1", voice: "alloy", input: "a" }), "speaks"],
  ["audio.transcriptions", (file) => openai.audio.transcriptions.create({ model: "whisper-1", file }), "hears audio"],
  ["audio.translations", (file) => openai.audio.translations.create({ model: "whisper-1", file }), "hears audio"],
  ["images.generate", () => openai.images.generate({ model: "gpt-image-1", prompt: "a" }), "makes images"],
  ["images.edit", (image) => openai.images.edit({ model: "gpt-image-1", image, prompt: "a" }), "makes images"],
  ["moderations.create", () => openai.moderations.create({ input: "a" }), "moderates texts"],
  ["videos.create", () => openai.videos.create({ prompt: "a" }), "makes videos"],
  ["beta.assistants.create", () => openai.beta.assistants.create({ model: "tiny" }), "Use agents"],
  ["beta.threads.create", () => openai.beta.threads.create(), "responses with a conversation"],
  ["skills.list", () => openai.skills.list(), "keeps no skills"],
  ["realtime.clientSecrets.create", () => openai.realtime.clientSecrets.create({}), "no open connection"],
];

test("openai: a family that this server lacks is 404 with the reason or another way", async () => {
  for (const [name, call, words] of LACKING) {
    const refusal = await refusalOf(call(new File(["RIFF"], "a.wav")));
    expect([name, refusal]).toMatchObject([name, { status: 404, message: expect.stringContaining(words) }]);
  }
  expect(LACKING).toHaveLength(11);
}, 60_000);
