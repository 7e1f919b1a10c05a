/** Encoders compute embeddings and scores without a cache, and say clearly what they cannot do. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Engine } from "../../src/workers/serving/engine/types.ts";
import { checkHealth, warm } from "../../src/workers/serving/health.ts";
import { createRequestHandler } from "../../src/workers/serving/http.ts";
import { toServed } from "../../src/workers/serving/request.ts";
import { encoderReference } from "../encoder_reference.ts";
import { makeEncoder } from "../encoders.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { closeEngines, refusal, testEngine, tokens } from "./engines.ts";

setDefaultTimeout(60_000);
const dir = tempDir();
const CONTEXT = 128;
const TEXTS = ["king", "the king is running, the queen runs!", "a tractor", "hello"];
const whole = (engine: Engine, text: string) => engine.tokenize(text, { addBos: true, special: false });
const furthest = (a: readonly number[], b: Iterable<number>) => {
  const other = [...b];
  expect(other).toHaveLength(a.length);
  return Math.max(...a.map((value, i) => Math.abs(value - other[i]!)));
};
afterAll(closeEngines);

describe.each(["mean", "cls", "last", null] as const)("pooling %s", (pooling) => {
  test("equals plain arithmetic, alone and in a batch", async () => {
    const engine = await testEngine(makeEncoder(dir, { pooling }));
    expect(engine.facts).toMatchObject({ isEncoder: true, pooling: pooling ?? "mean", hasPooling: pooling !== null });
    const prompts = TEXTS.map((text) => whole(engine, text));
    const reference = encoderReference(0, CONTEXT)[pooling ?? "mean"];
    const together = await engine.embed(prompts);
    for (const [i, prompt] of prompts.entries()) {
      const [alone] = await engine.embed([prompt]);
      expect(furthest(reference([...prompt]), together[i]!)).toBeLessThan(1e-3);
      expect(furthest([...alone!], together[i]!)).toBeLessThan(1e-4);
    }
  });
});

test("more prompts than one call holds keep their order", async () => {
  const engine = await testEngine(makeEncoder(dir, { pooling: "mean" }));
  const long = Int32Array.from({ length: CONTEXT }, (_, i) => 5 + (i % 15));
  const [king, queen, full] = [whole(engine, "king"), whole(engine, "queen"), long];
  const prompts = Array.from({ length: 150 }, (_, i) => [king, queen, full][i % 3]!);
  const vectors = await engine.embed(prompts);
  expect(vectors).toHaveLength(150);
  const [first, second, third] = vectors;
  for (const [i, vector] of vectors.entries())
    expect(furthest([...[first, second, third][i % 3]!], vector)).toBeLessThan(1e-4);
  expect(await refusal(engine.embed([new Int32Array(CONTEXT + 1).fill(5)]))).toThrow("the context holds 128");
  expect((await engine.embed([king])).length).toBe(1);
});

test("a context beyond the model's positions is cut to them", async () => {
  const engine = await testEngine(makeEncoder(dir, { pooling: "mean" }), { contextLength: 4096 });
  expect(engine.facts.contextLength).toBe(CONTEXT);
});

test("a cancelled job ends, and the next one is answered", async () => {
  const engine = await testEngine(makeEncoder(dir, { pooling: "mean" }));
  const leave = new AbortController();
  const many = Array.from({ length: 500 }, () => whole(engine, "king"));
  const left = refusal(engine.embed(many, leave.signal));
  const next = engine.embed([whole(engine, "queen")]);
  leave.abort(new Error("the client left"));
  expect(await left).toThrow("the client left");
  expect(await next).toHaveLength(1);
});

test("a decoder whose file names the last token takes its state", async () => {
  const options = { arch: "llama", type: "F32" } as const;
  const [mean, last] = [
    await testEngine(makeModel(dir, options)),
    await testEngine(makeModel(dir, { ...options, pooling: 3 })),
  ];
  expect(last.facts).toMatchObject({ isEncoder: false, pooling: "last", hasPooling: true });
  expect(mean.facts).toMatchObject({ isEncoder: false, pooling: "mean", hasPooling: false });
  const prompt = tokens(mean, `${"hello the ".repeat(40)}end`); // more than one part
  const ends = await last.embed([prompt, prompt.slice(-1)]);
  const [ofOne] = await mean.embed([prompt.slice(-1)]);
  expect(furthest([...ofOne!], ends[1]!)).toBeLessThan(1e-4); // one token: mean and last are the same
  expect(furthest([...(await mean.embed([prompt]))[0]!], ends[0]!)).toBeGreaterThan(1e-2);
});

describe("over HTTP", () => {
  let encoder: Post;
  let ranker: Post;
  let decoder: Post;
  let rankEngine: Engine;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
  type Post = (path: string, body: object) => Promise<{ status: number; body: any }>;
  const serve =
    (engine: Engine): Post =>
    async (path, body) => {
      const handler = createRequestHandler(toServed(engine), () => {}, new AbortController().signal);
      const request = new Request(`http://w${path}`, { method: "POST", body: JSON.stringify({ model: "m", ...body }) });
      const response = await handler.fetch(request);
      return { status: response.status, body: await response.json() };
    };
  beforeAll(async () => {
    rankEngine = await testEngine(makeEncoder(dir, { pooling: "rank" }));
    const meanEngine = await testEngine(makeEncoder(dir, { pooling: "mean" }));
    await warm(meanEngine);
    expect(await checkHealth(meanEngine, 10_000)).toMatchObject({ decoded: true });
    [encoder, ranker] = [serve(meanEngine), serve(rankEngine)];
    decoder = serve(await testEngine(makeModel(dir, { arch: "llama", type: "F32" })));
  });

  test("embeddings: a batch, dimensions, base64 and usage", async () => {
    const { body } = await encoder("/embeddings", { input: TEXTS });
    expect(body.data.map(({ embedding }: { embedding: number[] }) => embedding.length)).toEqual([32, 32, 32, 32]);
    expect(body.usage.prompt_tokens).toBe(3 + 12 + 4 + 3); // [CLS] and [SEP] count
    const short = (await encoder("/embeddings", { input: "king", dimensions: 8 })).body.data[0].embedding;
    const scale = Math.hypot(...body.data[0].embedding.slice(0, 8));
    expect(
      furthest(
        body.data[0].embedding.slice(0, 8).map((value: number) => value / scale),
        short,
      ),
    ).toBeLessThan(1e-4);
    const coded = (await encoder("/embeddings", { input: "king", encoding_format: "base64" })).body.data[0].embedding;
    const bytes = Buffer.from(coded, "base64");
    expect(furthest(body.data[0].embedding, new Float32Array(bytes.buffer, bytes.byteOffset, 32))).toBeLessThan(1e-4);
    expect((await encoder("/embeddings", { input: "" })).status).toBe(200);
  });

  test("rerank: a reranker scores [CLS] query [SEP] document", async () => {
    const reference = encoderReference(1, CONTEXT).rank;
    const plain = (text: string) => [...rankEngine.tokenize(text, { addBos: false, special: false })];
    const [query = "", ...documents] = TEXTS;
    const { status, body } = await ranker("/rerank", { input: TEXTS });
    expect(status).toBe(200);
    const expected = documents.map((text) => reference([2, ...plain(query), 3, ...plain(text)])[0]!);
    expect(furthest(expected, body.scores)).toBeLessThan(1e-3);
    expect(new Set(body.scores).size).toBe(documents.length);
    const [named, plainly] = (await ranker("/rerank", { input: [query, "[SEP]", "sep"] })).body.scores;
    expect(named).not.toBe(plainly); // a document that names a control token does not contain it
  });

  test("rerank: an embedding model compares embeddings", async () => {
    const { scores } = (await encoder("/rerank", { input: ["king", "tractor", "king"] })).body;
    expect(scores[1]).toBeCloseTo(1, 4);
    expect(scores[0]).toBeLessThan(0.99);
  });

  test("what a model cannot do is one clear sentence", async () => {
    const messages = [{ role: "user", content: "hello" }];
    const cases = [
      [encoder, "/chat/completions", { messages }, "generates no text. Send texts to /v1/embeddings"],
      [encoder, "/completions", { prompt: "a" }, "generates no text. Send texts to /v1/embeddings"],
      [ranker, "/completions", { prompt: "a" }, "generates no text. Send texts to /v1/rerank"],
      [ranker, "/embeddings", { input: "a" }, "scores pairs of texts and computes no embeddings"],
      [decoder, "/rerank", { input: ["a", "b"] }, "generates text and cannot rank"],
    ] as const;
    for (const [post, path, body, message] of cases) {
      const answer = await post(path, body);
      expect([path, answer.status, answer.body.error.param]).toEqual([path, 422, "/model"]);
      expect(answer.body.error.message).toContain(message);
    }
    const long = "king ".repeat(200);
    for (const [post, input, param] of [
      [ranker, ["king", "queen", long], "/documents/1"],
      [encoder, [long, "queen"], "/query"],
      [encoder, ["queen", long], "/documents/0"],
      [ranker, ["king", "x".repeat(100_000)], "/documents/0"],
    ] as const) {
      const { body } = await post("/rerank", { input });
      expect(body.error).toMatchObject({ code: "context_length_exceeded", param });
    }
    expect((await encoder("/embeddings", { input: ["king", long] })).body.error.param).toBe("/input/1");
  });
});
