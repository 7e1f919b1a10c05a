// tier: all (serves models)
/** The newer calls of the `openai` client, unchanged, against the executable. The model is a recording. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";
import OpenAI, { toFile } from "openai";
import { tempDir } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const PATCH = "*** Begin Patch";
const CALL = `<tool_call>\n${JSON.stringify({ name: "apply_patch", arguments: { input: PATCH } })}\n</tool_call>`;
const FINAL = "The file is changed.";
const QUESTION = "Change the file.";

let server: Awaited<ReturnType<typeof startServing>>;
let openai: OpenAI;
let folder: string;
beforeAll(async () => {
  folder = tempDir();
  server = await startServing({ files: { recorded: recordedModel(folder, [CALL, FINAL], 4096) } });
  await server.deploy({ model: "recorded", name: "demo", parallel: 4, context_length: 2048 });
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
  openai = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
}, 120_000);
afterAll(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

test("chat: a custom tool, its call in a stream, and its result", async () => {
  const tools = [{ type: "custom" as const, custom: { name: "apply_patch", description: "Edits a file." } }];
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: QUESTION }];
  const { choices } = await openai.chat.completions.create({ model: "demo", messages, tools });
  const [call] = choices[0]?.message.tool_calls ?? [];
  if (call?.type !== "custom") throw new Error("no custom call");
  expect([call.custom, choices[0]?.finish_reason]).toEqual([{ name: "apply_patch", input: PATCH }, "tool_calls"]);
  messages.push(choices[0]?.message as OpenAI.ChatCompletionMessage, {
    role: "tool",
    tool_call_id: call.id,
    content: "ok",
  });
  expect((await openai.chat.completions.create({ model: "demo", messages, tools })).choices[0]?.message.content).toBe(
    FINAL,
  );
}, 60_000);

test("chat: allowed_tools, constraints, counts of tokens, many answers", async () => {
  const messages = [{ role: "user" as const, content: "What is 7 + 5?" }];
  const request = { model: "tiny", messages, max_tokens: 8, temperature: 1 };
  const shown = {
    type: "function" as const,
    function: { name: "look", parameters: { type: "object", properties: {} } },
  };
  const hidden = {
    type: "function" as const,
    function: { name: "hide", parameters: { type: "object", properties: {} } },
  };
  const allowed = { mode: "required" as const, tools: [{ type: "function", function: { name: "look" } }] };
  const called = await openai.chat.completions.create({
    ...request,
    max_tokens: 64,
    tools: [shown, hidden],
    tool_choice: { type: "allowed_tools", allowed_tools: allowed },
  });
  expect(called.choices[0]?.message.tool_calls?.map((call) => "function" in call && call.function.name)).toContain(
    "look",
  );
  expect(called.usage?.completion_tokens_details?.reasoning_tokens).toBe(0);
  const many = await openai.chat.completions.create({ ...request, n: 40 });
  expect(new Set(many.choices.map(({ index }) => index)).size).toBe(40);
  const said = async (fields: object) =>
    (await openai.chat.completions.create({ ...request, ...fields })).choices[0]?.message.content ?? "";
  expect(["red", "blue"]).toContain(await said({ guided_choice: ["red", "blue"] }));
  expect(await said({ structured_outputs: { regex: "[xy]{3}-\\d" } })).toMatch(/^[xy]{3}-\d$/);
  expect(JSON.parse(await said({ guided_json: { type: "boolean" } }))).toBeBoolean();
}, 60_000);

test("chat: a stream that a stop string ends, with /v1 in the base URL and without", async () => {
  const messages = [{ role: "user" as const, content: "What is 7 + 5?" }];
  const request = { model: "tiny", messages, max_tokens: 8, temperature: 0, stop: ["never", "2"] };
  for (const baseURL of [`${server.url}/v1`, server.url]) {
    const stream = openai.withOptions({ baseURL }).chat.completions.stream(request);
    const reasons: (string | null | undefined)[] = [];
    for await (const { choices } of stream) reasons.push(choices[0]?.finish_reason);
    const [choice] = (await stream.finalChatCompletion()).choices;
    expect([choice?.message.content, choice?.finish_reason]).toEqual(["1", "stop"]);
    expect(reasons.filter((reason) => reason !== null)).toEqual(["stop"]);
    expect(choice).toMatchObject({ stop_reason: "2" });
  }
}, 60_000);

test("chat: cache_prompt: false reads a repeated prompt again", async () => {
  const messages = [{ role: "user" as const, content: "A prompt that is long enough to be in the cache." }];
  const cached = async (fields: object) => {
    const { usage } = await openai.chat.completions.create({ model: "tiny", messages, max_tokens: 2, ...fields });
    return usage?.prompt_tokens_details?.cached_tokens ?? -1;
  };
  await cached({});
  expect(await cached({})).toBeGreaterThan(0);
  expect(await cached({ cache_prompt: false })).toBe(0);
}, 60_000);

type WithIds = { prompt_token_ids?: number[]; choices: { token_ids?: number[] }[] };

test("return_token_ids: the tokens of a chat, whole and streamed, and a completion that goes on from them", async () => {
  const messages = [{ role: "user" as const, content: "What is 7 + 5?" }];
  const request = { model: "tiny", messages, max_tokens: 8, temperature: 0, return_token_ids: true, logprobs: true };
  const whole = (await openai.chat.completions.create(request)) as OpenAI.ChatCompletion & WithIds;
  const [choice] = whole.choices;
  expect(whole.prompt_token_ids).toHaveLength(whole.usage?.prompt_tokens ?? 0);
  expect(choice?.token_ids).toHaveLength(choice?.logprobs?.content?.length ?? 0);
  expect(choice?.token_ids).toHaveLength((whole.usage?.completion_tokens ?? 0) + 1); // with the end token
  const parts: WithIds[] = [];
  for await (const part of await openai.chat.completions.create({ ...request, stream: true }))
    parts.push(part as WithIds);
  expect(parts.flatMap((part) => part.prompt_token_ids ?? [])).toEqual(whole.prompt_token_ids ?? []);
  expect(parts.flatMap((part) => part.choices[0]?.token_ids ?? [])).toEqual(choice?.token_ids ?? []);
  const { prompt_token_ids: prompt = [] } = whole;
  const tokens = { model: "tiny", prompt, max_tokens: 8, temperature: 0, return_token_ids: true };
  const said = (await openai.completions.create(tokens)).choices[0] as OpenAI.CompletionChoice & {
    prompt_token_ids?: number[];
    token_ids?: number[];
  };
  expect(said.prompt_token_ids).toEqual(prompt);
  expect(said.token_ids).toEqual(choice?.token_ids ?? []);
  expect(said.text).toBe(choice?.message.content ?? "");
}, 60_000);

/** The kinds of tools that Codex 0.169.0 always sends, as it sends them. */
const CODEX_TOOLS = [
  { type: "function", name: "shell", description: "Runs a command", strict: false, parameters: { type: "object" } },
  {
    type: "custom",
    name: "apply_patch",
    description: "Edits.",
    format: { type: "grammar", syntax: "lark", definition: "start: LINE" },
  },
  {
    type: "namespace",
    name: "agents",
    description: "Agents",
    tools: [{ type: "function", name: "spawn", parameters: {} }],
  },
  { type: "web_search", external_web_access: false },
] as unknown as OpenAI.Responses.Tool[];

test("responses: the tools of Codex; a custom call streamed, and its result", async () => {
  const request = { model: "demo", tools: CODEX_TOOLS, store: false };
  const stream = openai.responses.stream({ ...request, input: QUESTION });
  const types: string[] = [];
  for await (const event of stream) types.push(event.type);
  expect(types).toContain("response.custom_tool_call_input.done");
  const { output } = await stream.finalResponse();
  expect(output).toMatchObject([{ type: "custom_tool_call", name: "apply_patch", input: PATCH }]);
  const [call] = output as { call_id: string }[];
  const result = { type: "custom_tool_call_output" as const, call_id: call?.call_id ?? "", output: "ok" };
  const input = [{ role: "user" as const, content: QUESTION }, ...output, result] as OpenAI.Responses.ResponseInput;
  expect((await openai.responses.create({ ...request, input })).output_text).toBe(FINAL);
}, 60_000);

test("responses: retrieve with a stream, background with a stream, compact", async () => {
  const stored = await openai.responses.create({ model: "tiny", input: "What is 7 + 5?", max_output_tokens: 8 });
  let text = "";
  for await (const event of await openai.responses.retrieve(stored.id, { stream: true }))
    if (event.type === "response.output_text.delta") text += event.delta;
  expect(text).toBe(stored.output_text);
  const request = { model: "tiny", input: "What is 7 + 5?", max_output_tokens: 8 };
  const types: string[] = [];
  for await (const event of await openai.responses.create({ ...request, background: true, stream: true }))
    types.push(event.type);
  expect([types[0], types.at(-1)]).toEqual(["response.created", expect.stringMatching(/completed|incomplete/)]);
  const compacted = await openai.responses.compact({
    model: "tiny",
    input: [{ role: "user", content: "Remember 12." }],
  });
  expect(compacted.output.map(({ type }) => type)).toEqual(["compaction"]);
  const next = [...compacted.output, { role: "user", content: "Which number?" }] as OpenAI.Responses.ResponseInput;
  expect((await openai.responses.create({ model: "tiny", input: next, max_output_tokens: 4 })).status).toBeString();
}, 60_000);

test("uploads: parts sent at once become a file in their order, and a cancelled upload takes no more", async () => {
  const [head, tail] = [Buffer.from("first "), Buffer.from("second")];
  const mime_type = "text/plain";
  const fields = { filename: "a.txt", purpose: "user_data" as const, bytes: head.length + tail.length, mime_type };
  const { id } = await openai.uploads.create(fields);
  const sent = [tail, head].map(async (data) => openai.uploads.parts.create(id, { data: await toFile(data) }));
  const [second, first] = await Promise.all(sent);
  const md5 = new Bun.CryptoHasher("md5").update("first second").digest("hex");
  const completed = await openai.uploads.complete(id, { part_ids: [first?.id ?? "", second?.id ?? ""], md5 });
  expect(completed).toMatchObject({ object: "upload", status: "completed", filename: "a.txt" });
  expect(await (await openai.files.content(completed.file?.id ?? "")).text()).toBe("first second");
  const other = await openai.uploads.create(fields);
  expect((await openai.uploads.cancel(other.id)).status).toBe("cancelled");
  const late = await openai.uploads.parts.create(other.id, { data: await toFile(head) }).catch(String);
  expect(late).toMatch(/is cancelled/);
}, 60_000);

test("graders are validated and run, and an eval is changed", async () => {
  const grader = {
    type: "string_check" as const,
    name: "same",
    operation: "eq" as const,
    input: "{{sample.output_text}}",
    reference: "{{item.answer}}",
  };
  const { graders } = openai.fineTuning.alpha;
  expect((await graders.validate({ grader })).grader).toEqual(grader);
  const run = async (model_sample: string) =>
    (await graders.run({ grader, model_sample, item: { answer: "12" } })).reward;
  expect([await run("12"), await run("13")]).toEqual([1, 0]);
  const several = { type: "multi" as const, name: "m", graders: { same: grader }, calculate_output: "2 * same" };
  const whole = await graders.run({ grader: several as never, model_sample: "12", item: { answer: "12" } });
  expect([whole.reward, whole.sub_rewards]).toEqual([2, { same: 1 }]);
  const data_source_config = { type: "custom" as const, item_schema: { type: "object" } };
  const { id } = await openai.evals.create({ name: "sums", data_source_config, testing_criteria: [grader] });
  expect((await openai.evals.update(id, { name: "totals", metadata: { a: "b" } })).name).toBe("totals");
  expect(await openai.evals.retrieve(id)).toMatchObject({ name: "totals", metadata: { a: "b" } });
}, 90_000);

test("@ai-sdk/openai: a tool that the provider runs is dropped, and the answer still comes", async () => {
  const provider = createOpenAI({ apiKey: server.key, baseURL: `${server.url}/v1` });
  const tools = { web_search: provider.tools.webSearch({}) };
  const { text } = await generateText({ model: provider("tiny"), prompt: "What is 7 + 5?", tools, maxOutputTokens: 8 });
  expect(text.length).toBeGreaterThan(0);
}, 60_000);
