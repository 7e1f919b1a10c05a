import { afterEach, describe, expect, test } from "bun:test";
import { manyApps, type TestApp, until } from "../../../../../test/harness.ts";
import {
  chat,
  createAgent,
  LOCAL,
  mcpServer,
  type Said,
  scriptedModel,
  shellServer,
  streamed,
} from "../../../../../test/mcp/agents_kit.ts";
import { isAllowed, McpServer, needsApproval } from "./schema.ts";

const { open, closeAll } = manyApps();
const servers: { stop: () => void }[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) server.stop();
  await closeAll();
});

const ADD = { name: "add", description: "Adds two numbers" };
const FREE = { type: "mcp", server_label: "sums", require_approval: "never" };

function sums(
  act: Parameters<typeof mcpServer>[1] = (_name, { a, b }) => String(Number(a) + Number(b)),
  tools = [ADD],
) {
  const server = mcpServer(tools, act);
  servers.push(server);
  return server;
}

/** An agent with a server over HTTP, and a model that says these answers. */
async function agentWith(
  said: Parameters<typeof scriptedModel>[1],
  server = sums(),
  more: object = {},
  agent: object = {},
) {
  const app = open({ flags: LOCAL });
  const model = await scriptedModel(app, said);
  await createAgent(app, [{ ...FREE, server_url: server.url, ...more }], agent);
  return { app, ...model, server };
}

const SUM: Said = { text: "Let me add.", calls: [["add", { a: 2, b: 3 }]] };

describe("a chat with an agent that has an MCP server", () => {
  test("calls the tool on the server, and the model answers with the result", async () => {
    const { app, requests, server } = await agentWith([SUM, "It is 5."]);
    const { status, body, headers } = await chat(app);
    expect([status, body.choices[0].message.content, body.choices[0].finish_reason]).toEqual([200, "It is 5.", "stop"]);
    expect(body.choices[0].message.executed_tools).toEqual([
      {
        index: 0,
        type: "mcp",
        id: "call_1_0",
        server_label: "sums",
        name: "add",
        arguments: '{"a":2,"b":3}',
        output: "5",
        error: null,
      },
    ]);
    expect(body.usage).toMatchObject({ prompt_tokens: 20, completion_tokens: 4, total_tokens: 24 });
    expect(headers.get("x-trace-id")).toStartWith("trc_");
    expect(server.calls()).toMatchObject([{ name: "add", arguments: { a: 2, b: 3 } }]);
    expect(requests[0]?.tools?.map(({ function: { name, description } }) => [name, description])).toEqual([
      ["add", "Adds two numbers"],
    ]);
    expect(requests[1]?.messages.slice(1)).toMatchObject([
      { role: "assistant", content: "Let me add.", tool_calls: [{ id: "call_1_0", function: { name: "add" } }] },
      { role: "tool", content: "5" },
    ]);
  });

  test("streams the texts of all turns, the calls that it made, and one end", async () => {
    const { app } = await agentWith([SUM, "It is 5."]);
    const { chunks, text } = await streamed(app, { stream_options: { include_usage: true } });
    const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
    expect(deltas.map(({ content }) => content ?? "").join("")).toBe("Let me add.It is 5.");
    expect(deltas.filter(({ role }) => role !== undefined)).toHaveLength(1);
    expect(deltas.some((delta) => "tool_calls" in delta)).toBe(false);
    expect(deltas.flatMap(({ executed_tools: executed }) => executed ?? [])).toMatchObject([
      { name: "add", output: "5" },
    ]);
    expect(new Set(chunks.map(({ id }) => id))).toEqual(new Set(["chatcmpl-1"]));
    expect(chunks.flatMap(({ choices }) => choices.flatMap((each) => each.finish_reason ?? []))).toEqual(["stop"]);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 20, completion_tokens: 4 } });
    expect(text.trimEnd()).toEndWith("data: [DONE]");
  });

  test("ends with an answer when its turns are used: the last turn has no call", async () => {
    const { app, requests } = await agentWith([SUM, SUM, "Enough."], sums(), {}, { max_turns: 3 });
    expect((await chat(app)).body.choices[0].message.content).toBe("Enough.");
    expect(requests.map(({ tool_choice }) => tool_choice)).toEqual(["auto", "auto", "none"]);
  });

  test("each call is in the trace of the turn that made it", async () => {
    const { app, server } = await agentWith([SUM, "It is 5."]);
    await chat(app);
    const rows = await until("two traces", async () => {
      const { data } = (await app.call("GET", "/v1/traces")).body;
      return data.length === 2 ? data : undefined;
    });
    const traces = await Promise.all(
      rows.map(async ({ id }: { id: string }) => (await app.call("GET", `/v1/traces/${id}`)).body),
    );
    const calls = traces.flatMap(({ spans }) => spans).filter(({ name }: { name: string }) => name === "tool_call");
    expect(calls).toMatchObject([{ attributes: { tool: "add", server: "sums", failed: false } }]);
    expect(traces.every(({ agent_version }) => agent_version === 1)).toBe(true);
    expect(server.calls()).toHaveLength(1);
  });

  test("works through responses, messages and chats of Ollama too", async () => {
    const { app, server } = await agentWith([SUM, "R", SUM, "M", SUM, "O"]);
    const responded = await app.call("POST", "/v1/responses", { model: "helper", input: "hi" });
    expect(responded.body.output.at(-1).content[0].text).toBe("R");
    const message = { model: "helper", max_tokens: 50, messages: [{ role: "user", content: "hi" }] };
    expect((await app.call("POST", "/v1/messages", message)).body.content.at(-1).text).toBe("M");
    const ollama = { model: "helper", stream: false, messages: [{ role: "user", content: "hi" }] };
    expect((await app.call("POST", "/api/chat", ollama)).body.message.content).toBe("O");
    expect(server.calls()).toHaveLength(3);
  });

  test("is refused in the background and with several answers", async () => {
    const { app } = await agentWith([]);
    const background = await app.call("POST", "/v1/responses", { model: "helper", input: "hi", background: true });
    expect([background.status, background.body.error.code]).toEqual([400, "unsupported_state"]);
    expect((await chat(app, { n: 2 })).body.error.param).toBe("/n");
  });
});

describe("approval", () => {
  const GATED = { require_approval: { never: { tool_names: ["add"] } } };
  const tools = [ADD, { name: "erase", description: "Erases all" }];
  const ERASE: Said = { calls: [["erase", {}]] };

  test("a call that needs approval goes to the client, and runs when the client sends it back", async () => {
    const server = sums((name) => `${name} done`, tools);
    const { app, requests } = await agentWith([ERASE, "Erased."], server, GATED);
    const first = (await chat(app)).body.choices[0];
    expect([first.finish_reason, first.message.tool_calls[0].function.name]).toEqual(["tool_calls", "erase"]);
    expect(server.calls()).toEqual([]);
    const messages = [{ role: "user", content: "hi" }, first.message];
    const { body } = await chat(app, { messages });
    expect(server.calls()).toMatchObject([{ name: "erase" }]);
    expect(body.choices[0].message).toMatchObject({ content: "Erased.", executed_tools: [{ output: "erase done" }] });
    expect(requests[1]?.messages.at(-1)).toMatchObject({ role: "tool", content: "erase done" });
  });

  test("a call that the client answers itself is not run", async () => {
    const server = sums((name) => `${name} done`, tools);
    const { app, requests } = await agentWith([ERASE, "Then not."], server, GATED);
    const { message } = (await chat(app)).body.choices[0];
    const no = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "Not allowed" };
    const { chunks } = await streamed(app, { messages: [{ role: "user", content: "hi" }, message, no] });
    expect(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta["content"] ?? "")).join("")).toBe(
      "Then not.",
    );
    expect(server.calls()).toEqual([]);
    expect(requests[1]?.messages.at(-1)).toMatchObject({ content: "Not allowed" });
  });

  test("a stream ends with the calls that need approval", async () => {
    const { app } = await agentWith(
      [{ text: "May I?", calls: [["erase", { all: true }]] }],
      sums(() => "", tools),
      GATED,
    );
    const { chunks } = await streamed(app);
    const calls = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta["tool_calls"] ?? []));
    expect(calls).toMatchObject([
      { index: 0, id: "call_1_0", function: { name: "erase" } },
      { function: { arguments: '{"all":true}' } },
    ]);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("tool_calls");
  });

  test("functions of the client stand beside the tools of servers, and their calls go to the client", async () => {
    const own = { type: "function", function: { name: "add", parameters: { type: "object" } } };
    const { app, requests, server } = await agentWith([
      { calls: [["add", {}]] },
      { calls: [["sums__add", { a: 1, b: 1 }]] },
      "2",
    ]);
    const first = (await chat(app, { tools: [own] })).body.choices[0];
    expect([first.finish_reason, server.calls()]).toEqual(["tool_calls", []]);
    expect(requests[0]?.tools?.map(({ function: { name } }) => name)).toEqual(["add", "sums__add"]);
    expect((await chat(app, { tools: [own] })).body.choices[0].message.content).toBe("2");
    expect(server.calls()).toMatchObject([{ name: "add" }]);
  });

  test("filters decide by name and by what the server says of a tool", () => {
    const tool = (name: string, isReadOnly = false) => ({ name, isReadOnly });
    const spec = (more: object) => McpServer.parse({ ...FREE, server_url: "https://a.example", ...more });
    expect(isAllowed(spec({ allowed_tools: ["a"] }), tool("a"))).toBe(true);
    expect(isAllowed(spec({ allowed_tools: ["a"] }), tool("b"))).toBe(false);
    expect(isAllowed(spec({ allowed_tools: { read_only: true } }), tool("b"))).toBe(false);
    expect(needsApproval(spec({ require_approval: undefined }), tool("a"))).toBe(true);
    expect(needsApproval(spec({ require_approval: { never: { read_only: true } } }), tool("a", true))).toBe(false);
    expect(needsApproval(spec({ require_approval: { never: { read_only: true } } }), tool("a"))).toBe(true);
    const both = { always: { tool_names: ["a"] }, never: { tool_names: ["a", "b"] } };
    expect(["a", "b", "c"].map((name) => needsApproval(spec({ require_approval: both }), tool(name)))).toEqual([
      true,
      false,
      true,
    ]);
  });
});

describe("a bad server", () => {
  const errorOf = (body: { choices: { message: { executed_tools: { error: string }[] } }[] }) =>
    body.choices[0]?.message.executed_tools[0]?.error;

  test.each([
    ["reports an error", () => ({ content: [{ type: "text", text: "no such row" }], isError: true }), "no such row"],
    ["answers with another form", () => ({ content: 5 }), "broke the protocol"],
    ["answers another request", () => Response.json({ jsonrpc: "2.0", id: 99, result: {} }), "id of another request"],
    ["redirects to an inner address", () => Response.redirect("http://169.254.169.254/"), "a redirect (302)"],
    ["sends too much", () => "x".repeat(400_000), "more than 262144 bytes"],
  ] as const)("that %s costs the call alone: the model reads the error", async (_what, act, error) => {
    const { app, requests } = await agentWith([SUM, "Sorry."], sums(act));
    const { status, body } = await chat(app);
    expect([status, body.choices[0].message.content]).toEqual([200, "Sorry."]);
    expect(errorOf(body)).toContain(error);
    expect(requests[1]?.messages.at(-1)?.content).toContain(error);
  });

  test("arguments that are no object are an error of the call", async () => {
    const { app, server } = await agentWith([{ calls: [["add", "[1]"]] }, "Sorry."]);
    expect(errorOf((await chat(app)).body)).toBe("the arguments are not a JSON object");
    expect(server.calls()).toEqual([]);
  });

  test("at an inner address is refused with the agent", async () => {
    const app = open();
    for (const server_url of ["http://10.1.2.3/mcp", "http://localhost/mcp", "https://[::1]/mcp", "ftp://a.example/"]) {
      const tools = [{ ...FREE, server_url }];
      const { status, body } = await app.call("POST", "/v1/agents", { name: "helper", deployment: "served", tools });
      expect([status, body.error.code, body.error.param]).toEqual([400, "url_not_allowed", "/tools/0/server_url"]);
    }
  });

  test("that cannot be reached fails the chat with its label", async () => {
    const server = sums();
    const { app } = await agentWith([], server);
    await server.stop();
    const { status, body } = await chat(app);
    expect([status, body.error.code]).toEqual([502, "fetch_failed"]);
    expect(body.error.message).toContain("MCP server sums");
    const { text } = await streamed(app);
    expect(text).toContain("fetch_failed");
  });

  test("with a huge schema or too many tools is refused", async () => {
    const huge = [{ name: "x", inputSchema: { type: "object", description: "x".repeat(70_000) } }];
    const { app } = await agentWith(
      [],
      sums(() => "", huge as never),
    );
    expect((await chat(app)).body.error.message).toContain("whose schema has more than");
    const many = Array.from({ length: 200 }, (_, i) => ({ name: `t${i}`, description: "" }));
    const server = sums(() => "", many);
    await createAgent(app, [{ ...FREE, server_url: server.url }]);
    expect((await chat(app)).body.error.message).toContain("set allowed_tools");
  });

  test("that hangs ends with the client that leaves", async () => {
    const hung = Promise.withResolvers<void>();
    const server = sums(() => {
      hung.resolve();
      return new Promise<string>(() => {});
    });
    const { app } = await agentWith([SUM], server);
    const caller = new AbortController();
    const request = new Request("http://localhost/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "helper", stream: true, messages: [{ role: "user", content: "hi" }] }),
      signal: caller.signal,
    });
    const { body } = await app.handle(request);
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    const reading = (async () => {
      for (;;) if ((await reader.read()).done) return;
    })();
    await hung.promise;
    await reader.cancel();
    await reading;
    await until("the call to be cancelled", () =>
      server.seen.some(({ method }) => method === "notifications/cancelled"),
    );
  });
});

describe("secrets", () => {
  test("headers take them from the workspace, only for their host, and agents never show them", async () => {
    const server = sums();
    const app = open({ flags: LOCAL });
    await scriptedModel(app, [SUM, "5"]);
    await app.call("PUT", "/v1/secrets/SUM_TOKEN", { value: "s3cr3t-sum", scope_host: "127.0.0.1" });
    const tool = { ...FREE, server_url: server.url, authorization: `\${SUM_TOKEN}`, headers: { "x-lab": "7" } };
    const agent = await createAgent(app, [tool]);
    expect(agent.tools).toEqual([tool]);
    expect((await chat(app)).status).toBe(200);
    expect(server.seen[0]?.headers.get("authorization")).toBe("Bearer s3cr3t-sum");
    expect(server.seen[0]?.headers.get("x-lab")).toBe("7");
    const before = server.seen.length;
    await app.call("PUT", "/v1/secrets/SUM_TOKEN", { value: "s3cr3t-sum", scope_host: "other.example" });
    expect((await chat(app)).body.error.code).toBe("url_not_allowed");
    expect(server.seen).toHaveLength(before);
    expect(app.log.join("")).not.toContain("s3cr3t-sum");
  });

  test.each([
    ["a token as it is", { authorization: "abc" }, "/tools/0/authorization"],
    ["a header with a key", { headers: { "X-Api-Key": "abc" } }, "/tools/0/headers/X-Api-Key"],
    [
      "a variable with a password",
      { server_url: undefined, command: "x", env: { DB_PASSWORD: "abc" } },
      "/tools/0/env/DB_PASSWORD",
    ],
    ["neither an address nor a command", { server_url: undefined }, "/tools/0/server_url"],
    ["a label with a space", { server_label: "a b" }, "/tools/0/server_label"],
  ])("%s is refused", async (_what, more, param) => {
    const app = open();
    await scriptedModel(app, []);
    const tools = [{ ...FREE, server_url: "https://a.example/mcp", ...more }];
    const answer = await app.call("POST", "/v1/agents", { name: "helper", deployment: "served", tools });
    expect([answer.status, answer.body.error.param]).toEqual([422, param]);
  });

  test("another workspace has neither the agent nor its tools", async () => {
    const { app, server } = await agentWith([SUM, "5"]);
    expect((await chat(app, {}, { key: app.keyB })).status).toBe(404);
    expect(server.seen).toEqual([]);
  });
});

describe("a server in a jail", () => {
  const jailed = (act: string, more: object = {}) => ({
    ...FREE,
    command: "sh",
    args: ["-c", shellServer(act)],
    ...more,
  });
  const ACT: Said = { calls: [["act", {}]] };
  async function started(act: string, said: Said[], more: object = {}) {
    const app = open();
    await scriptedModel(app, said);
    await createAgent(app, [jailed(act, more)]);
    return app;
  }
  const sessionsOf = async (app: TestApp) => (await app.call("GET", "/v1/sessions")).body.data;

  test("answers calls from a session that ends with the chat", async () => {
    const app = open();
    await scriptedModel(app, [ACT, "Done."]);
    await app.call("PUT", "/v1/secrets/LAB_TOKEN", { value: "s3cr3t" });
    await createAgent(app, [jailed('text "$LAB_TOKEN in $PWD"', { env: { LAB_TOKEN: `\${LAB_TOKEN}` } })]);
    const { body } = await chat(app);
    expect(body.choices[0].message.executed_tools[0]).toMatchObject({ output: "s3cr3t in /workspace", error: null });
    expect(await sessionsOf(app)).toMatchObject([{ name: "mcp sums", status: "stopped", exec_count: 1 }]);
  });

  test("that ends costs its call, and is started again for the next", async () => {
    const act = 'if [ -e /workspace/again ]; then text two; else echo "out of luck" >&2; exit 3; fi';
    const app = await started(act, [ACT, ACT, "Done."]);
    const { body } = await chat(app);
    const executed = body.choices[0].message.executed_tools;
    expect(executed.map(({ error }: { error: string }) => error)).toEqual([
      expect.stringContaining("ended with exit code 3. Its last output: out of luck"),
      expect.stringContaining("ended with exit code 3"),
    ]);
    expect((await sessionsOf(app)).map(({ status }: { status: string }) => status)).toEqual(["stopped", "stopped"]);
  });

  test("that kills itself, forks or floods costs its call", async () => {
    for (const [act, error] of [
      ["kill -9 $$", "ended"],
      [`yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | tr -d '\\n'`, "sent too much output"],
    ] as const) {
      const app = await started(act, [ACT, "Sorry."]);
      const { body } = await chat(app);
      expect([body.choices[0].message.content, body.choices[0].message.executed_tools[0].error]).toEqual([
        "Sorry.",
        expect.stringContaining(error),
      ]);
    }
  });

  test("that cannot be started fails the chat, and leaves no session", async () => {
    const app = await started("", [], { command: "no-such-program", args: [] });
    const { status, body } = await chat(app);
    expect([status, body.error.code]).toEqual([502, "fetch_failed"]);
    expect((await sessionsOf(app)).map((each: { status: string }) => each.status)).toEqual(["stopped"]);
  });
});
