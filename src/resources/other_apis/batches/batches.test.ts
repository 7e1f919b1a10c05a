import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestApp, testApp, until } from "../../../../test/harness.ts";
import { tickOf } from "../../../../test/loops_kit.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { TrustedClock } from "../../../platform/trusted_clock.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { sweep } from "../../data/volumes/sweep.ts";
import { linesOf, readRequests } from "./lines.ts";
import { prune } from "./prune.ts";
import { runBatches } from "./runner.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
let held: Promise<void> | undefined;
let busy = 0;
beforeAll(async () => {
  app = await serving();
});

async function serving(flags: Record<string, unknown> = {}): Promise<TestApp> {
  const made = testApp({ flags });
  const { body } = await made.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  const answer = async (_path: string, request: Json) => {
    busy++;
    await held;
    return chatAnswer(`to ${request.messages.at(-1).content}`);
  };
  pretendServing(made, body.id, { parallel: 8, answer });
  return made;
}
afterAll(() => app.close().then(app.remove));

const run = (ctx = app.ctx) => runBatches(ctx, new AbortController().signal);
const line = (custom_id: string, body: object = {}, url = "/v1/chat/completions") =>
  JSON.stringify({
    custom_id,
    method: "POST",
    url,
    body: { model: "d", messages: [{ role: "user", content: custom_id }], ...body },
  });
async function create(lines: string[], fields: object = {}) {
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new File([lines.join("\n")], "in.jsonl"));
  const { id } = (await app.call("POST", "/v1/files", undefined, { raw: form })).body;
  const json = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h", ...fields };
  return (await app.call("POST", "/v1/batches", json)).body;
}
const read = async (id: string) => (await app.call("GET", `/v1/batches/${id}`)).body;
const resultsOf = async (fileId: string): Promise<Json[]> =>
  (await app.call("GET", `/v1/files/${fileId}/content`)).body
    .trim()
    .split("\n")
    .map((each: string) => JSON.parse(each));

describe("a batch", () => {
  test("answers each line; good answers and errors become two files", async () => {
    const lines = [
      line("a"),
      line("b", { model: "none" }),
      line("c", { temperature: "hot" }),
      line("d", { stream: true }),
    ];
    const { id, status, request_counts } = await create(lines, { metadata: { of: "test" } });
    expect([status, request_counts.total]).toEqual(["validating", 0]);
    await run();
    const batch = await read(id);
    expect(batch).toMatchObject({ status: "completed", errors: null, metadata: { of: "test" } });
    expect(batch.request_counts).toEqual({ total: 4, completed: 1, failed: 3 });
    expect(batch.usage.total_tokens).toBeGreaterThan(0);
    const [good] = await resultsOf(batch.output_file_id);
    expect(good).toMatchObject({ custom_id: "a", error: null, response: { status_code: 200 } });
    expect(good.response.body.choices[0].message.content).toBe("to a");
    const bad = await resultsOf(batch.error_file_id);
    expect(bad.map(({ custom_id, response }) => [custom_id, response.status_code, response.body.error.param])).toEqual([
      ["b", 404, "/model"],
      ["c", 400, "/temperature"],
      ["d", 400, "/stream"],
    ]);
    expect((await app.call("GET", "/v1/batches")).body.data[0].id).toBe(id);
  });

  test("S6: a file of results beyond the quota is left out, and the batch says why", async () => {
    const usual = app;
    const input = line("a");
    app = await serving({ "quotas.file_bytes": input.length + 100 });
    try {
      const { id } = await create([input]);
      await run();
      const batch = await read(id);
      expect([batch.status, batch.output_file_id]).toEqual(["completed", null]);
      expect(batch.errors.data).toEqual([
        expect.objectContaining({ code: "quota_exceeded", message: expect.stringContaining("quotas.file_bytes") }),
      ]);
      expect(usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "files" })).toBe(input.length);
      await sweep(app.ctx);
      expect((await app.ctx.storage.list("")).items).toHaveLength(1);
    } finally {
      await app.close().then(app.remove);
      app = usual;
    }
  });

  test("of responses stores them", async () => {
    const body = { model: "d", input: "hi", messages: undefined };
    const { id } = await create([line("a", body, "/v1/responses")], { endpoint: "/v1/responses" });
    await run();
    const [{ response }] = await resultsOf((await read(id)).output_file_id);
    expect((await app.call("GET", `/v1/responses/${response.body.id}`)).body.output).toEqual(response.body.output);
  });

  test("whose file has a fault runs no request, and names the lines", async () => {
    const { id } = await create([line("a"), "{", line("a"), line("b", {}, "/v1/embeddings"), '{"custom_id":1}']);
    const before = busy;
    await run();
    const { status, errors, output_file_id } = await read(id);
    expect([status, output_file_id, busy]).toEqual(["failed", null, before]);
    expect(errors.data.map(({ line, code }: Json) => [line, code])).toEqual([
      [2, "invalid_request"],
      [3, "duplicate_custom_id"],
      [4, "invalid_request"],
      [5, "invalid_request"],
    ]);
  });

  test("that is cancelled stores what it has; its input cannot be deleted before", async () => {
    const { id, input_file_id } = await create([line("a"), line("b")]);
    const gate = Promise.withResolvers<void>();
    held = gate.promise;
    const before = busy;
    const running = run();
    await until("a request", () => busy > before);
    expect((await app.call("DELETE", `/v1/files/${input_file_id}`)).status).toBe(400);
    expect((await app.call("POST", `/v1/batches/${id}/cancel`)).body.status).toBe("cancelling");
    await running;
    gate.resolve();
    held = undefined;
    const batch = await read(id);
    expect(batch).toMatchObject({ status: "cancelled", request_counts: { total: 2, completed: 0, failed: 2 } });
    expect((await resultsOf(batch.error_file_id)).map(({ error }) => error.code)).toEqual([
      "batch_cancelled",
      "batch_cancelled",
    ]);
    expect((await app.call("POST", `/v1/batches/${id}/cancel`)).body.status).toBe("cancelled");
    expect((await app.call("DELETE", `/v1/files/${input_file_id}`)).status).toBe(200);
  });

  test("expires after a day, and a loop that was cut off goes on", async () => {
    const { id } = await create([line("a")]);
    const stop = new AbortController();
    const gate = Promise.withResolvers<void>();
    held = gate.promise;
    const before = busy;
    const running = runBatches(app.ctx, stop.signal);
    await until("a request", () => busy > before);
    stop.abort();
    await running;
    gate.resolve();
    held = undefined;
    expect((await read(id)).status).toBe("in_progress");
    await run({ ...app.ctx, clock: { ...app.ctx.clock, now: () => Date.now() + 2 * DAY_MS } });
    const batch = await read(id);
    expect(batch.status).toBe("expired");
    expect((await resultsOf(batch.error_file_id))[0]).toMatchObject({
      response: null,
      error: { code: "batch_expired" },
    });
  });

  test("clock: a jump of a year ahead expires no batch", async () => {
    const { id } = await create([line("a")]);
    let aheadMs = 0;
    const clock = { ...app.ctx.clock, now: () => Date.now() + aheadMs };
    const state = { ...app.ctx.state, trustedClock: new TrustedClock(clock) };
    aheadMs = 365 * DAY_MS;
    await tickOf({ ...app.ctx, clock, state }, "batches.run");
    expect((await read(id)).status).toBe("completed");
  });

  test("that ended long ago is removed with its files; an input that a later batch has stays", async () => {
    const { id, input_file_id } = await create([line("a"), line("b", { model: "none" })]);
    await run();
    const { output_file_id, error_file_id } = await read(id);
    const json = { input_file_id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    const later = (await app.call("POST", "/v1/batches", json)).body;
    const files = [input_file_id, output_file_id, error_file_id];
    const found = async () =>
      Promise.all(
        [...files.map((file) => `files/${file}`), `batches/${id}`, `batches/${later.id}`].map(
          async (path) => (await app.call("GET", `/v1/${path}`)).status,
        ),
      );
    await prune(app.ctx, app.ctx.clock.now() - DAY_MS);
    expect(await found()).toEqual([200, 200, 200, 200, 200]);
    await prune(app.ctx, app.ctx.clock.now() + 1);
    expect(await found()).toEqual([200, 404, 404, 404, 200]);
    await run();
    await prune(app.ctx, app.ctx.clock.now() + 1);
    expect(await found()).toEqual([404, 404, 404, 404, 404]);
    await sweep(app.ctx);
    const left = app.ctx.db.$client.query<{ key: string }, []>("SELECT storage_key AS key FROM client_files").all();
    const stored = (await app.ctx.storage.list("files/")).items.map(({ key }) => key);
    expect(stored.toSorted()).toEqual(left.map(({ key }) => key).toSorted());
  });

  test("is refused with a file of another purpose, of another workspace, or a route that it cannot use", async () => {
    const form = new FormData();
    form.set("purpose", "evals");
    form.set("file", new File(["x"], "in.jsonl"));
    const { id } = (await app.call("POST", "/v1/files", undefined, { raw: form })).body;
    const json = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    const call = async (fields: object, key = app.keyA) => {
      const { status, body } = await app.call("POST", "/v1/batches", { ...json, ...fields }, { key });
      return [status, body.error.param];
    };
    expect(await call({})).toEqual([400, "/input_file_id"]);
    expect(await call({}, app.keyB)).toEqual([404, "/input_file_id"]);
    expect(await call({ endpoint: "/v1/images" })).toEqual([400, "/endpoint"]);
    expect(await call({ completion_window: "1h" })).toEqual([400, "/completion_window"]);
  });
});

async function* inPieces(text: string, size: number) {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
}

test("lines keep their places for every division into chunks", async () => {
  const text = `${line("a")}\r\n\n${line("ü😀")}\n${line("c")}`;
  const limits = { endpoint: "/v1/chat/completions" as const, maxBytes: 1000, maxValues: 100 };
  for (const size of [1, 3, 7, 1000]) {
    const { requests, errors } = await readRequests(inPieces(text, size), limits);
    expect(errors).toEqual([]);
    const bytes = new TextEncoder().encode(text);
    const cut = requests.map(({ byteOffset, byteLength }) => bytes.slice(byteOffset, byteOffset + byteLength));
    expect(cut.map((each) => JSON.parse(new TextDecoder().decode(each)).custom_id)).toEqual(["a", "ü😀", "c"]);
  }
});

test("a file of one endless line is refused before it is whole", async () => {
  let pieces = 0;
  async function* endless() {
    for (;;) {
      pieces++;
      yield new Uint8Array(1000).fill(120);
    }
  }
  const found = [];
  for await (const { bytes } of linesOf(endless(), 2500)) found.push(bytes.byteLength);
  expect([found, pieces]).toEqual([[3000], 3]);
});
