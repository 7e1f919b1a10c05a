import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { runBatches } from "../batches/runner.ts";
import { createMessageTranslator } from "./events.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
let sent: Json[] = [];
let answer: (request: Json) => object = () => chatAnswer("hello");
beforeAll(async () => {
  app = testApp();
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  const record = (_path: string, request: Json) => {
    sent.push(request);
    return answer(request);
  };
  pretendServing(app, body.id, { parallel: 8, answer: record });
});
afterAll(() => app.close().then(app.remove));

const ANTHROPIC = { "anthropic-version": "2023-06-01" };
const ask = (fields: object) =>
  app.call("POST", "/v1/messages", {
    model: "d",
    max_tokens: 8,
    messages: [{ role: "user", content: "hi" }],
    ...fields,
  });
/** Returns the messages that the model reads for one message of the user, or the error. */
async function readOf(content: Json[]): Promise<Json> {
  sent = [];
  const { status, body } = await ask({ messages: [{ role: "user", content }] });
  return status === 200 ? sent[0].messages : body.error.message;
}
const upload = async (name: string, content: string | Uint8Array<ArrayBuffer>) => {
  const form = new FormData();
  form.set("file", new File([content], name));
  return (await app.call("POST", "/v1/files?beta=true", undefined, { raw: form, headers: ANTHROPIC })).body;
};

describe("a message", () => {
  test("counts cached tokens once, and names the stop sequence", async () => {
    answer = () => {
      const made = chatAnswer("hello") as Json;
      const usage = { prompt_tokens: 30, completion_tokens: 2, total_tokens: 32 };
      const choices = [{ ...made.choices[0], stop_reason: "END" }];
      return { ...made, choices, usage: { ...usage, prompt_tokens_details: { cached_tokens: 20 } } };
    };
    const { body } = await ask({ stop_sequences: ["END"] });
    answer = () => chatAnswer("hello");
    expect(body).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "END" });
    expect(body.usage).toEqual({
      input_tokens: 10,
      output_tokens: 2,
      cache_read_input_tokens: 20,
      cache_creation_input_tokens: 0,
    });
    expect((await ask({})).body).toMatchObject({ stop_reason: "end_turn", stop_sequence: null });
  });

  test("begins a stream with the tokens of the prompt", () => {
    const { chunk } = createMessageTranslator();
    const prompt_progress = { total: 30, cache: 20, processed: 20, time_ms: 0 };
    const first = chunk({ id: "x", model: "d", choices: [{ index: 0, delta: {} }], prompt_progress } as never);
    const { message } = JSON.parse(first.split("data: ")[1] as string);
    expect(message.usage).toMatchObject({ input_tokens: 10, cache_read_input_tokens: 20, output_tokens: 0 });
  });

  test("obeys the schema of output_config and of output_format", async () => {
    const schema = { type: "object", properties: { a: { type: "integer" } } };
    const format = { type: "json_schema", schema };
    const response_format = { type: "json_schema", json_schema: { schema } };
    for (const fields of [{ output_config: { format, effort: "low" } }, { output_format: format }]) {
      sent = [];
      expect((await ask(fields)).headers.get("warning")).toBeNull();
      expect(sent[0]).toMatchObject({ response_format });
    }
  });

  test("has text documents as text, and images of a tool's result after it", async () => {
    const document = { type: "document", title: "Rain", context: "of May", source: { type: "text", data: "wet" } };
    expect(await readOf([document, { type: "text", text: "Why?" }])).toEqual([
      { role: "user", content: "Rain\n\nof May\n\nwet\n\nWhy?" },
    ]);
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } };
    const result = { type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "see" }, image] };
    expect(await readOf([result])).toContain("reads no images");
    const pdf = { type: "document", source: { type: "base64", media_type: "application/pdf", data: "" } };
    expect(await readOf([pdf])).toContain("PDF files are not read. Send their text");
  });

  test("takes thoughts that only another server can read, and drops them", async () => {
    const messages = [
      { role: "user", content: "hi" },
      {
        role: "assistant",
        content: [
          { type: "redacted_thinking", data: "x" },
          { type: "text", text: "yes" },
        ],
      },
      { role: "user", content: "go on" },
    ];
    sent = [];
    expect((await ask({ messages })).status).toBe(200);
    expect(sent[0].messages[1]).toEqual({ role: "assistant", content: "yes" });
  });

  test("of a thread is refused in the words that make Anthropic's client send the whole conversation", async () => {
    const { status, body } = await ask({ thread: { type: "continue", previous_message_id: "msg_1" } });
    expect([status, body.error.type, body.error.details]).toEqual([
      400,
      "invalid_request_error",
      { error_code: "thread_unsupported_request", unsupported: ["thread"] },
    ]);
  });

  test("with a tool of the provider is refused with the reason", async () => {
    const { status, body } = await ask({ tools: [{ type: "web_search_20250305", name: "web_search" }] });
    expect([status, body.error.message]).toEqual([
      400,
      "tools.0.type: must be custom: this server runs no tools of its own. Remove the tool, or send it with an input_schema",
    ]);
    const tool = { type: "custom", name: "f", input_schema: { type: "object" } };
    expect((await ask({ tools: [tool] })).status).toBe(200);
    expect((await ask({ mcp_servers: [{ url: "x" }] })).body.error.message).toContain("calls no MCP servers");
  });
});

describe("files in the format of Anthropic", () => {
  test("are uploaded, listed, read by a message and deleted", async () => {
    const file = await upload("notes.txt", "wet");
    expect(file).toMatchObject({ type: "file", filename: "notes.txt", mime_type: "text/plain", size_bytes: 3 });
    const listed = await app.call("GET", "/v1/files", undefined, { headers: ANTHROPIC });
    expect(listed.body).toMatchObject({ data: [{ id: file.id }], first_id: file.id, next_page: null });
    const source = { type: "file", file_id: file.id };
    expect(await readOf([{ type: "document", source }])).toEqual([{ role: "user", content: "wet\n\n" }]);
    const removed = await app.call("DELETE", `/v1/files/${file.id}`, undefined, { headers: ANTHROPIC });
    expect(removed.body).toEqual({ id: file.id, type: "file_deleted" });
    const missing = await app.call("GET", `/v1/files/${file.id}`, undefined, { headers: ANTHROPIC });
    expect([missing.status, missing.body]).toMatchObject([404, { type: "error", error: { type: "not_found_error" } }]);
    expect(missing.headers.get("request-id")).toBe(missing.headers.get("x-request-id"));
    expect(await readOf([{ type: "document", source }])).toContain(`No file ${file.id}`);
  });

  test("of one request are at most 64", async () => {
    const { id } = await upload("word.txt", "a");
    const files = (count: number) =>
      Array.from({ length: count }, () => ({ type: "document", source: { type: "file", file_id: id } }));
    expect(await readOf(files(64))).toEqual([{ role: "user", content: "a\n\n".repeat(64) }]);
    expect(await readOf(files(65))).toContain("are more than 64");
  });

  test("that are no text are refused as a document, and files of others are not there", async () => {
    const { id } = await upload("a.bin", Uint8Array.of(0xff, 0xfe, 0x00));
    const block = { type: "document", source: { type: "file", file_id: id } };
    expect(await readOf([block])).toContain("the file is not text in UTF-8");
    const messages = [{ role: "user", content: [block] }];
    const other = await app.call("POST", "/v1/messages", { max_tokens: 8, messages }, { key: app.keyB });
    expect(other.status).toBe(404);
  });
});

test("models are listed as Anthropic lists them", async () => {
  const { body } = await app.call("GET", "/v1/models", undefined, { headers: ANTHROPIC });
  expect(body).toMatchObject({ data: [{ type: "model", id: "d", display_name: "d" }], has_more: false, last_id: "d" });
  expect(Date.parse(body.data[0].created_at)).toBeGreaterThan(0);
  const one = (await app.call("GET", "/v1/models/d", undefined, { headers: ANTHROPIC })).body;
  expect(one).toEqual(body.data[0]);
  expect((await app.call("GET", "/v1/models")).body.data[0].object).toBe("model");
});

describe("a batch of messages", () => {
  const request = (custom_id: string, fields: object = {}) => ({
    custom_id,
    params: { model: "d", max_tokens: 8, messages: [{ role: "user", content: custom_id }], ...fields },
  });
  const create = async (requests: object[]) => (await app.call("POST", "/v1/messages/batches", { requests })).body;
  const read = async (id: string) => (await app.call("GET", `/v1/messages/batches/${id}`)).body;
  const run = () => runBatches(app.ctx, new AbortController().signal);

  test("answers each request, and its results and files go with it", async () => {
    const { id, processing_status, request_counts, results_url } = await create([
      request("a"),
      request("b", { model: "none" }),
      request("c", { stream: true }),
    ]);
    expect([processing_status, request_counts.processing, results_url]).toEqual(["in_progress", 3, null]);
    expect((await app.call("GET", `/v1/messages/batches/${id}/results`)).status).toBe(400);
    expect((await app.call("DELETE", `/v1/messages/batches/${id}`)).status).toBe(400);
    await run();
    const batch = await read(id);
    expect(batch).toMatchObject({ processing_status: "ended", archived_at: null });
    expect(batch.request_counts).toEqual({ processing: 0, succeeded: 1, errored: 2, canceled: 0, expired: 0 });
    const { pathname } = new URL(batch.results_url);
    const lines = ((await app.call("GET", pathname)).body as string).trim().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { custom_id: "a", result: { type: "succeeded", message: { type: "message", content: [{ text: "hello" }] } } },
      { custom_id: "b", result: { type: "errored", error: { type: "error", error: { type: "not_found_error" } } } },
      { custom_id: "c", result: { type: "errored", error: { error: { param: "/stream" } } } },
    ]);
    expect((await app.call("GET", "/v1/messages/batches")).body).toMatchObject({ data: [{ id }], last_id: id });
    expect((await app.call("GET", "/v1/batches")).body.data).toEqual([]);
    expect((await app.call("GET", `/v1/messages/batches/${id}`, undefined, { key: app.keyB })).status).toBe(404);
    const stored = (await app.call("GET", "/v1/files?limit=100")).body.data.length;
    expect((await app.call("DELETE", `/v1/messages/batches/${id}`)).body.type).toBe("message_batch_deleted");
    expect((await app.call("GET", "/v1/files?limit=100")).body.data).toHaveLength(stored - 3); // input, output, errors
    expect((await app.call("GET", `/v1/messages/batches/${id}`)).status).toBe(404);
  });

  test("that is cancelled counts the requests that did not run", async () => {
    const { id } = await create([request("a"), request("b")]);
    expect((await app.call("POST", `/v1/messages/batches/${id}/cancel`)).status).toBe(200);
    await run();
    const { processing_status, request_counts, cancel_initiated_at } = await read(id);
    expect([processing_status, request_counts.canceled, typeof cancel_initiated_at]).toEqual(["ended", 2, "string"]);
    const text = (await app.call("GET", `/v1/messages/batches/${id}/results`)).body as string;
    expect(
      text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).result.type),
    ).toEqual(["canceled", "canceled"]);
  });

  test("is refused with two equal ids, and is stored once for one Idempotency-Key", async () => {
    const twice = { requests: [request("a"), request("a")] };
    const refused = await app.call("POST", "/v1/messages/batches", twice);
    expect([refused.status, refused.body.error.param]).toEqual([400, "/requests/1/custom_id"]);
    const once = () =>
      app.call("POST", "/v1/messages/batches", { requests: [request("a")] }, { headers: { "idempotency-key": "one" } });
    expect((await once()).body.id).toBe((await once()).body.id);
  });
});
