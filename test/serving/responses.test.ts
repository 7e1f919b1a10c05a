/** The `openai` client with the responses API, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI from "openai";
import { until } from "../harness.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
let openai: OpenAI;
const base = { model: "random", input: "Tell me something.", max_output_tokens: 12, temperature: 0 };
const CITY = {
  type: "object",
  properties: { city: { enum: ["Oslo"] } },
  required: ["city"],
  additionalProperties: false,
};

beforeAll(async () => {
  server = await startServing({ models: { random: { arch: "llama", type: "F32", context: 1024 } } });
  await server.deploy({ model: "random", name: "random", parallel: 4, context_length: 1024 });
  openai = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
}, 120_000);
afterAll(() => server?.stop());

test("openai: a streamed response has the text of the whole one", async () => {
  const whole = await openai.responses.create(base);
  let text = "";
  let last: OpenAI.Responses.Response | undefined;
  for await (const event of await openai.responses.create({ ...base, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.completed" || event.type === "response.incomplete") last = event.response;
  }
  expect(text).toBe(whole.output_text);
  expect(last?.usage?.output_tokens).toBe(whole.usage?.output_tokens as number);
});

test("openai: a response is continued, read and deleted", async () => {
  const first = await openai.responses.create(base);
  const next = await openai.responses.create({ ...base, input: "More.", previous_response_id: first.id });
  expect(next.usage?.input_tokens as number).toBeGreaterThan(first.usage?.input_tokens as number);
  expect((await openai.responses.retrieve(next.id)).output_text).toBe(next.output_text);
  expect((await openai.responses.inputItems.list(next.id)).data).toHaveLength(1);
  await openai.responses.delete(next.id);
  const refusal = await openai.responses.retrieve(next.id).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ status: 404 });
});

test("openai: a required tool, and an answer by a schema", async () => {
  const tool = { type: "function" as const, name: "weather", parameters: CITY, strict: true };
  const called = await openai.responses.create({
    ...base,
    max_output_tokens: 64,
    tools: [tool],
    tool_choice: "required",
  });
  const call = called.output.find((item) => item.type === "function_call");
  expect(JSON.parse(call?.arguments ?? "{}")).toEqual({ city: "Oslo" });
  const format = { type: "json_schema" as const, name: "city", schema: CITY };
  const shaped = await openai.responses.parse({ ...base, max_output_tokens: 64, text: { format } });
  expect(JSON.parse(shaped.output_text)).toEqual({ city: "Oslo" });
});

test("openai: a background response is queued, and ends", async () => {
  const { id, status } = await openai.responses.create({ ...base, background: true });
  expect(status).toBe("queued");
  const over = async () => !["queued", "in_progress"].includes((await openai.responses.retrieve(id)).status ?? "");
  await until("the response", over, 60_000);
  expect((await openai.responses.retrieve(id)).error).toBeNull();
});
