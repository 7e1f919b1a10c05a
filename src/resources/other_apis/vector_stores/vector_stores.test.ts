import { afterEach, beforeEach, expect, test } from "bun:test";
import OpenAI, { toFile } from "openai";
import { type TestApp, testApp, until } from "../../../../test/harness.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { nextTurn } from "../../../lib/turns.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { runIndexing } from "./index_files.ts";
import { prune } from "./prune.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
const TOPICS = ["cat", "dog", "ship", "star"];
/** One number for each topic: how often the text names it. */
const vectorOf = (text: string) => [...TOPICS.map((topic) => text.split(topic).length - 1), 0.01];
const LONGEST = 300;

let app: TestApp;
let openai: OpenAI;
let calls: string[][];
let hold: Promise<void> | undefined;
const clientOf = (apiKey: string) =>
  new OpenAI({
    apiKey,
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: ((url: string, init: RequestInit) => app.handle(new Request(url, init))) as typeof fetch,
  });

type Served = { type: "served"; request: string } & Record<string, unknown>;
/** A worker that refuses long texts. */
const worker = (report: (message: Served) => void) => async (request: Request) => {
  const { input } = (await request.json()) as Json;
  await hold;
  const texts: string[] = typeof input === "string" ? [input] : input;
  calls.push(texts);
  const isLong = texts.some((text) => text.length > LONGEST);
  const status = isLong ? 400 : 200;
  const usage = { prompt_tokens: 1, cached_tokens: 0, completion_tokens: 0, error: null };
  report({ type: "served", request: request.headers.get("x-verk-request") ?? "", status, ...usage });
  const error = { code: "context_length_exceeded", message: "too long", type: "invalid_request_error", param: null };
  if (isLong) return Response.json({ error }, { status });
  const data = texts.map((text, index) => ({ object: "embedding", index, embedding: vectorOf(text) }));
  return Response.json({ object: "list", model: "e", data, usage: { prompt_tokens: 1, total_tokens: 1 } });
};
async function begin(loops: ["vector_stores.index"] | []) {
  app = testApp({ loops, flags: { "quotas.file_bytes": 200_000 } });
  openai = clientOf(app.keyA);
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/e", name: "e" });
  pretendServing(app, body.id, { parallel: 4, worker: worker as never });
}
beforeEach(async () => {
  calls = [];
  hold = undefined;
  await begin(["vector_stores.index"]);
});
afterEach(() => app.close().then(app.remove));

const upload = async (text: string, name = "a.txt") =>
  (await openai.files.create({ file: await toFile(Buffer.from(text), name), purpose: "user_data" })).id;
const metadata = { embedding_model: "e" };
const completed = (id: string) =>
  until("the files to be embedded", async () => {
    const store = await openai.vectorStores.retrieve(id);
    return store.status === "completed" ? store : undefined;
  });
const refusalOf = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error);
const used = () => usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "files" });

test("openai: a vector store is made with files, listed, searched and deleted", async () => {
  const cats = await upload("A cat sleeps. The cat wakes.", "cats.txt");
  const ships = await upload("A ship sails under one star.", "ships.txt");
  const made = await openai.vectorStores.create({ name: "first", file_ids: [cats, ships], metadata });
  expect(made).toMatchObject({ object: "vector_store", name: "first", status: "in_progress", metadata });
  expect(made.file_counts).toEqual({ in_progress: 2, completed: 0, failed: 0, cancelled: 0, total: 2 });
  const store = await completed(made.id);
  expect(store.file_counts).toMatchObject({ completed: 2, total: 2 });
  expect(store.usage_bytes).toBeGreaterThan(50);
  const { data } = await openai.vectorStores.search(made.id, { query: "Where is my cat?" });
  expect(data.map(({ file_id, filename }) => [file_id, filename])).toEqual([
    [cats, "cats.txt"],
    [ships, "ships.txt"],
  ]);
  expect(data[0]).toMatchObject({ content: [{ type: "text", text: "A cat sleeps. The cat wakes." }], attributes: {} });
  expect(data[0]?.score).toBeCloseTo(1, 3);
  const limited = await openai.vectorStores.search(made.id, { query: ["ship", "cat"], max_num_results: 1 });
  expect(limited.data).toHaveLength(1);
  const ranking_options = { score_threshold: 0.5 };
  const near = await openai.vectorStores.search(made.id, { query: "star", ranking_options, rewrite_query: true });
  expect(near.data.map(({ file_id }) => file_id)).toEqual([ships]);
  expect((await openai.vectorStores.update(made.id, { name: "second" })).name).toBe("second");
  expect((await openai.vectorStores.list()).data.map(({ name }) => name)).toEqual(["second"]);
  const stranger = clientOf(app.keyB);
  expect(await refusalOf(stranger.vectorStores.retrieve(made.id))).toBeInstanceOf(OpenAI.NotFoundError);
  expect((await stranger.vectorStores.list()).data).toEqual([]);
  const before = used();
  expect(await openai.vectorStores.delete(made.id)).toEqual({
    id: made.id,
    object: "vector_store.deleted",
    deleted: true,
  });
  await prune(app.ctx);
  expect(used()).toBeLessThan(before);
  expect(used()).toBe(28 + 28); // the files stay
  expect(await refusalOf(openai.vectorStores.retrieve(made.id))).toBeInstanceOf(OpenAI.NotFoundError);
});

test("openai: files of a vector store are added, polled, read, filtered by attributes and removed", async () => {
  const { id } = await openai.vectorStores.create({ metadata });
  const add = async (text: string, attributes: Record<string, string | number>) =>
    openai.vectorStores.files.createAndPoll(id, { file_id: await upload(text), attributes }, { pollIntervalMs: 5 });
  const old = await add("the old dog", { year: 1990, kind: "pet" });
  const young = await add("the young dog", { year: 2020, kind: "pet" });
  expect(old).toMatchObject({
    object: "vector_store.file",
    status: "completed",
    vector_store_id: id,
    last_error: null,
  });
  const namesOf = async (filters: object) =>
    (await openai.vectorStores.search(id, { query: "dog", filters: filters as never })).data.map(
      ({ file_id }) => file_id,
    );
  const recent = { type: "gt", key: "year", value: 2000 };
  expect(await namesOf(recent)).toEqual([young.id]);
  expect(await namesOf({ type: "and", filters: [recent, { type: "eq", key: "kind", value: "ship" }] })).toEqual([]);
  const where = { vector_store_id: id };
  await openai.vectorStores.files.update(old.id, { ...where, attributes: { year: 2021 } });
  expect((await namesOf(recent)).sort()).toEqual([old.id, young.id].sort());
  expect((await openai.vectorStores.files.retrieve(old.id, where)).attributes).toEqual({ year: 2021 });
  const listed: string[] = [];
  for await (const file of openai.vectorStores.files.list(id, { limit: 1, filter: "completed" })) listed.push(file.id);
  expect(listed).toEqual([young.id, old.id]);
  const content = await openai.vectorStores.files.content(old.id, where);
  expect(content.data).toEqual([{ type: "text", text: "the old dog" }]);
  expect(await openai.vectorStores.files.delete(old.id, where)).toMatchObject({ id: old.id, deleted: true });
  await openai.files.delete(young.id); // also removes it from the store
  expect((await openai.vectorStores.files.list(id)).data).toEqual([]);
  expect(await namesOf({ type: "ne", key: "kind", value: "none" })).toEqual([]);
});

test("openai: a batch of files is followed to its end, or cancelled", async () => {
  const { id } = await openai.vectorStores.create({ metadata });
  const file_ids = [await upload("one cat"), await upload("two dogs")];
  const done = await openai.vectorStores.fileBatches.createAndPoll(id, { file_ids }, { pollIntervalMs: 5 });
  expect(done).toMatchObject({ object: "vector_store.files_batch", status: "completed", vector_store_id: id });
  const held = Promise.withResolvers<void>();
  hold = held.promise;
  const batch = await openai.vectorStores.fileBatches.create(id, { file_ids: [await upload("three ships")] });
  const where = { vector_store_id: id };
  expect(await openai.vectorStores.fileBatches.cancel(batch.id, where)).toMatchObject({ status: "cancelled" });
  held.resolve();
  expect((await openai.vectorStores.fileBatches.retrieve(batch.id, where)).file_counts).toMatchObject({ cancelled: 1 });
  const files = await openai.vectorStores.fileBatches.listFiles(batch.id, where);
  expect(files.data.map(({ status }) => status)).toEqual(["cancelled"]);
});

test("a text is split, and chunks that are too long for the model are halved", async () => {
  const text = Array.from({ length: 80 }, (_, i) => `Line ${i} of the cat.`).join("\n");
  const static_ = { type: "static" as const, static: { max_chunk_size_tokens: 100, chunk_overlap_tokens: 0 } };
  const file_ids = [await upload(text)];
  const { id } = await openai.vectorStores.create({ file_ids, chunking_strategy: static_, metadata });
  await completed(id);
  const content = await openai.vectorStores.files.content(file_ids[0] as string, { vector_store_id: id });
  const texts = content.data.map((part) => part.text ?? "");
  expect(texts.join("")).toBe(text);
  expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(200);
});

test("a file goes on after a kill where its last commit was", async () => {
  await app.close().then(app.remove);
  await begin([]);
  const text = Array.from({ length: 400 }, (_, i) => `Line ${i} of the dog.`).join("\n");
  const fields = { type: "static" as const, static: { max_chunk_size_tokens: 100, chunk_overlap_tokens: 0 } };
  const file_ids = [await upload(text)];
  const { id } = await openai.vectorStores.create({ file_ids, chunking_strategy: fields, metadata });
  const stop = new AbortController();
  const chunks = () =>
    (app.ctx.db.$client.query("SELECT count(*) AS n FROM client_vector_chunks").get() as { n: number }).n;
  const first = runIndexing(app.ctx, stop.signal);
  await until("some chunks", () => chunks() > 8);
  stop.abort();
  await first;
  const before = chunks();
  expect((await openai.vectorStores.retrieve(id)).status).toBe("in_progress");
  calls = [];
  await runIndexing(app.ctx, new AbortController().signal);
  expect((await openai.vectorStores.retrieve(id)).status).toBe("completed");
  const content: string[] = [];
  for await (const part of openai.vectorStores.files.content(file_ids[0] as string, { vector_store_id: id }))
    content.push(part.text ?? "");
  expect(before).toBeGreaterThan(8);
  expect(calls.flat().some((each) => each.startsWith("Line 0 of"))).toBe(false);
  expect(content.length).toBeGreaterThan(before);
});

test("what cannot be embedded says why", async () => {
  const { id } = await openai.vectorStores.create({ metadata });
  const errorOf = async (file_id: string) =>
    (await openai.vectorStores.files.createAndPoll(id, { file_id }, { pollIntervalMs: 5 })).last_error;
  const bytes = await openai.files.create({
    file: await toFile(new Uint8Array([255, 254, 0]), "x"),
    purpose: "user_data",
  });
  expect(await errorOf(bytes.id)).toMatchObject({ code: "unsupported_file" });
  expect(await errorOf(await upload(" \n "))).toEqual({ code: "invalid_file", message: "The file has no text" });
  expect(await errorOf(await upload("cat ".repeat(24_000)))).toMatchObject({
    code: "server_error",
    message: expect.stringContaining("quotas.file_bytes"),
  });
});

test.each([
  [{}, "/embedding_model"],
  [{ metadata: { embedding_model: "none" } }, "/model"],
  [{ metadata, file_ids: ["file_none"] }, "/file_ids/0"],
  [
    {
      metadata,
      chunking_strategy: { type: "static", static: { max_chunk_size_tokens: 100, chunk_overlap_tokens: 60 } },
    },
    "/chunking_strategy/static/chunk_overlap_tokens",
  ],
])("a store is not made of %j", async (fields, param) => {
  const error = (await refusalOf(openai.vectorStores.create(fields as never))) as InstanceType<typeof OpenAI.APIError>;
  expect(error.param).toBe(param);
  expect((await openai.vectorStores.list()).data).toEqual([]);
});

test("a store that expired is not searched, and loses its files", async () => {
  const file_ids = [await upload("one cat")];
  const expires_after = { anchor: "last_active_at" as const, days: 1 };
  const { id } = await openai.vectorStores.create({ file_ids, expires_after, metadata });
  await completed(id);
  app.ctx.db.$client.run("UPDATE client_vector_stores SET used_at = 0");
  expect(await openai.vectorStores.retrieve(id)).toMatchObject({ status: "expired", expires_after });
  expect(String(await refusalOf(openai.vectorStores.search(id, { query: "cat" })))).toContain("has expired");
  await prune(app.ctx);
  expect((app.ctx.db.$client.query("SELECT count(*) AS n FROM client_vector_chunks").get() as { n: number }).n).toBe(0);
});

test("a search of thousands of chunks keeps no turn of the event loop", async () => {
  const file_ids = [await upload("one cat")];
  const { id } = await openai.vectorStores.create({ file_ids, metadata });
  await completed(id);
  const { $client } = app.ctx.db;
  const [file] = $client.query<{ id: string }, []>("SELECT id FROM client_vector_files").all();
  $client.run("UPDATE client_vector_stores SET dimensions = 5");
  const add = $client.prepare(
    "INSERT INTO client_vector_chunks (workspace_id, store_id, vector_file_id, vector, text) VALUES (?, ?, ?, ?, ?)",
  );
  const addSome = $client.transaction((from: number) => {
    for (let i = from; i < from + 250; i++) {
      const vector = Buffer.from(Float32Array.of(0, 0, 0, i / 5_000, Math.sqrt(1 - (i / 5_000) ** 2)).buffer);
      add.run(app.workspaceA, id, file?.id ?? "", vector, `star ${i}`);
    }
  });
  for (let i = 0; i < 5_000; i += 250) {
    addSome(i);
    await nextTurn();
  }
  const { data } = await openai.vectorStores.search(id, { query: "star star star", max_num_results: 2 });
  expect(data.map(({ content }) => content[0]?.text)).toEqual(["star 4999", "star 4998"]);
});
