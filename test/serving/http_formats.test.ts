/** Tools, response formats and the other routes of the serving worker. */
import { describe, expect, test } from "bun:test";
import { ChatCompletion } from "../../src/lib/chat/chat_completion.ts";
import { Completion } from "../../src/lib/chat/completion.ts";
import { EmbeddingList } from "../../src/lib/chat/embedding.ts";
import { BadGrammar } from "../../src/workers/serving/engine/types.ts";
import { ASK, chunks, events, httpWorker, json } from "./http_kit.ts";

const { engine, lastPrompt, post, scripted, socket } = httpWorker();

describe("tools", () => {
  const tool = {
    type: "function",
    function: { name: "add", parameters: { type: "object", properties: { a: { type: "integer" } }, required: ["a"] } },
  };
  const request = { ...ASK, tools: [tool] };

  test("a call in the text becomes tool_calls, and the text before it becomes content", async () => {
    scripted("Let me", " see.<tool", "_call>\n", '{"name": "add", "argum', 'ents": {"a": 1}}\n</tool_call>');
    const body = ChatCompletion.parse(await json(await post("/chat/completions", request)));
    const [choice] = body.choices;
    expect(choice?.message.content).toBe("Let me see.");
    expect(choice?.message.tool_calls?.[0]).toMatchObject({
      type: "function",
      function: { name: "add", arguments: '{"a":1}' },
    });
    expect(choice?.message.tool_calls?.[0]?.id).toMatch(/^call_\w+$/);
    expect(choice?.finish_reason).toBe("tool_calls");
  });

  test("streamed, nothing of the call shows as content", async () => {
    scripted("Hm <", "tool_call>", '{"name":"add","arguments":{"a":2}}', "</tool_call>");
    const parts = chunks(await (await post("/chat/completions", { ...request, stream: true })).text());
    const deltas = parts.map((part) => part.choices[0]?.delta);
    expect(deltas.map((delta) => delta?.content ?? "").join("")).toBe("Hm ");
    expect(deltas.flatMap((delta) => delta?.tool_calls ?? [])).toMatchObject([
      { index: 0, type: "function", function: { name: "add", arguments: "" } },
      { index: 0, function: { arguments: '{"a":2}' } },
    ]);
    expect(parts.at(-1)?.choices[0]?.finish_reason).toBe("tool_calls");
  });

  test("text that only looks like a call is content", async () => {
    scripted("<tool_call>not json</tool_call> tail");
    const body = await json(await post("/chat/completions", request));
    expect(body.choices[0].message.content).toBe("<tool_call>not json</tool_call> tail");
    expect(body.choices[0].finish_reason).toBe("stop");
  });

  test("a required call has a grammar of its arguments; tool_choice none shows no tools", async () => {
    scripted('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>');
    for (const choice of ["required", { type: "function", function: { name: "add" } }]) {
      const body = await json(await post("/chat/completions", { ...request, tool_choice: choice }));
      expect(engine.requests.at(-1)?.grammar).toContain('{\\"name\\": \\"add\\", \\"arguments\\": ');
      expect(body.choices[0].message).toMatchObject({ content: null, tool_calls: [{ function: { name: "add" } }] });
    }
    await post("/chat/completions", { ...request, tool_choice: "none" });
    expect(engine.requests.at(-1)?.grammar).toBeUndefined();
    expect(lastPrompt()).not.toContain("add");
  });

  test("calls and results of earlier turns are in the prompt", async () => {
    scripted("3");
    const call = { id: "call_1", type: "function", function: { name: "add", arguments: '{"a": 1}' } };
    const messages = [
      { role: "user", content: "add" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "3" }] },
    ];
    expect((await post("/chat/completions", { ...request, messages })).status).toBe(200);
    expect(lastPrompt()).toContain('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>');
    expect(lastPrompt()).toContain("<tool_response>\n3\n</tool_response>");
  });
});

describe("response_format", () => {
  test("json_object and json_schema restrict the engine to a grammar", async () => {
    scripted("{}");
    await post("/chat/completions", { ...ASK, response_format: { type: "json_object" } });
    expect(engine.requests.at(-1)?.grammar).toStartWith("root ::= object\n");
    const schema = { type: "object", properties: { colour: { enum: ["red", "blue"] } }, required: ["colour"] };
    const response_format = { type: "json_schema", json_schema: { name: "c", schema, strict: true } };
    await post("/chat/completions", { ...ASK, response_format });
    expect(engine.requests.at(-1)?.grammar).toContain('"\\"red\\"" | "\\"blue\\""');
  });

  test("an unsupported keyword is refused with its position", async () => {
    const schema = { type: "object", properties: { a: { not: { type: "string" } } } };
    const response_format = { type: "json_schema", json_schema: { name: "c", schema } };
    const response = await post("/chat/completions", { ...ASK, response_format });
    expect([response.status, (await json(response)).error.param]).toEqual([
      422,
      "/response_format/json_schema/schema/properties/a/not",
    ]);
  });
});

test.each([
  ["/tools", { tools: [{ type: "function", function: { name: "f", parameters: {} } }], tool_choice: "required" }],
  ["/response_format", { response_format: { type: "json_object" } }],
])("a grammar that the engine refuses is an error that names %s", async (param, fields) => {
  const { generate } = engine;
  engine.generate = () => {
    throw new BadGrammar("left recursion");
  };
  const answer = await post("/chat/completions", { ...ASK, ...fields });
  engine.generate = generate;
  expect(answer.status).toBe(422);
  expect((await json(answer)).error).toMatchObject({ param, message: expect.stringContaining("left recursion") });
});

describe("the other routes", () => {
  test("completions take texts and tokens, one or many, and echo the prompt", async () => {
    scripted("!", "?");
    const many = Completion.parse(await json(await post("/completions", { model: "m", prompt: ["a", "b"], n: 2 })));
    expect(many.choices.map((choice) => [choice.index, choice.text])).toEqual([0, 1, 2, 3].map((i) => [i, "!?"]));
    expect(many.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 8 });
    const tokens = await json(await post("/completions", { model: "m", prompt: [104, 105], echo: true }));
    expect(tokens.choices[0].text).toBe("hi!?");
    expect(engine.requests.at(-1)?.maxTokens).toBe(16);
    const text = await (await post("/completions", { model: "m", prompt: "yo", echo: true, stream: true })).text();
    const parts = events(text)
      .slice(0, -1)
      .map((event) => Completion.parse(JSON.parse(event)));
    expect(parts.map((part) => part.choices[0]?.text).join("")).toBe("yo!?");
    expect(parts.at(-1)?.choices[0]?.finish_reason).toBe("stop");
  });

  test("completions have logprobs in their old shape", async () => {
    scripted("ab", "c");
    const body = Completion.parse(await json(await post("/completions", { model: "m", prompt: "x", logprobs: 1 })));
    expect(body.choices[0]?.logprobs).toEqual({
      tokens: ["ab", "c"],
      token_logprobs: [-0.5, -0.5],
      top_logprobs: [{ ab: -0.5 }, { c: -0.5 }],
      text_offset: [0, 2],
    });
  });

  test("embeddings come as numbers or base64, and shorter on request", async () => {
    const ask = (more: object) => post("/embeddings", { model: "m", input: ["ab", "c"], ...more });
    const plain = EmbeddingList.parse(await json(await ask({})));
    expect(plain.data.map((item) => item.embedding)).toEqual([
      [2, 0, 0.5, 0],
      [1, 0, 0.5, 0],
    ]);
    const packed = EmbeddingList.parse(await json(await ask({ encoding_format: "base64", dimensions: 4 })));
    const bytes = Buffer.from(packed.data[0]?.embedding as string, "base64");
    expect([...new Float32Array(bytes.buffer, bytes.byteOffset, 4)]).toEqual([2, 0, 0.5, 0]);
    const short = EmbeddingList.parse(await json(await ask({ dimensions: 1 })));
    expect(short.data[0]?.embedding).toEqual([1]);
    const refused = await ask({ dimensions: 5 });
    expect([refused.status, (await json(refused)).error.param]).toEqual([422, "/dimensions"]);
  });

  test("health decodes a token, stats are numbers, another path is 404 in the envelope", async () => {
    scripted("x");
    const get = (path: string) => fetch(`http://worker${path}`, { unix: socket } as RequestInit);
    const before = engine.requests.length;
    expect(await json(await get("/health"))).toMatchObject({ decoded: true, decode_ms: expect.any(Number) });
    expect(engine.requests.length).toBe(before + 1);
    expect(await json(await get("/stats"))).toMatchObject({ active: 0, idle_ms: null });
    expect((await json(await get("/nothing"))).error.code).toBe("route_not_found");
  });

  test("a model that decodes nothing is not healthy", async () => {
    scripted(new Error("gpu fell off"));
    const response = await fetch("http://worker/health", { unix: socket } as RequestInit);
    expect([response.status, (await json(response)).error.code]).toEqual([502, "worker_failed"]);
  });
});
