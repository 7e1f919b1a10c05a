import { afterEach, expect, test } from "bun:test";
import { until } from "../../../test/harness.ts";
import { jailedClient, scripted } from "../../../test/mcp/servers.ts";
import { guardedOpenDial } from "../../platform/network/http_client.ts";
import { McpClient, McpError, TIMES } from "./client.ts";
import { httpTransport } from "./http.ts";
import { textOf } from "./text.ts";

const NEVER = new AbortController().signal;
const open: { close: () => Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function started(onCall: string, more?: string, options: object = {}) {
  const jailed = await jailedClient({ argv: scripted(onCall, more), ...options });
  open.push(jailed.client);
  return jailed;
}
const messageOf = (work: Promise<unknown>) =>
  work.then(
    () => "no error",
    (error: Error) => (error instanceof McpError ? error.message : `not McpError: ${error}`),
  );

test("a server in a jail lists its pages of tools and answers calls", async () => {
  const more = `const onOther = () => {}; tools.push({ name: "two", description: "second", inputSchema: {}, annotations: { readOnlyHint: true } });`;
  const { client } = await started("reply(JSON.stringify(params.arguments))", more);
  expect(await client.tools(NEVER)).toEqual([
    { name: "act", description: "", inputSchema: { type: "object" }, isReadOnly: false },
    { name: "two", description: "second", inputSchema: {}, isReadOnly: true },
  ]);
  expect(await client.call("act", { a: [1] }, NEVER)).toEqual({ text: '{"a":[1]}', failed: false });
});

test("the client answers a ping, refuses other requests, and lists tools again after they changed", async () => {
  const onCall = `
    send({ id: "s1", method: "ping" });
    send({ id: "s2", method: "sampling/createMessage", params: {} });
    tools[0].name = "renamed";
    send({ method: "notifications/tools/list_changed" });
    pending = reply;`;
  const more = `let pending; const said = [];
    process.stdin.on("data", (bytes) => {
      for (const line of String(bytes).trim().split("\\n")) {
        const { id, result, error } = JSON.parse(line);
        if (String(id).startsWith("s")) said.push(result ? "pong" : error.code);
        if (said.length === 2) { pending(said.join(" ")); said.length = 0; }
      }
    });`;
  const { client } = await started(onCall, more);
  expect((await client.tools(NEVER))[0]?.name).toBe("act");
  expect((await client.call("act", {}, NEVER)).text).toBe("pong -32601");
  expect((await client.tools(NEVER))[0]?.name).toBe("renamed");
});

test("a call that is left is cancelled at the server, and the connection goes on", async () => {
  const onCall = `if (params.arguments.wait) return; reply(seen.join());`;
  const more = `const seen = []; const onOther = ({ method, params }) => { if (method === "notifications/cancelled") seen.push(params.requestId); };`;
  const { client } = await started(onCall, more);
  const caller = new AbortController();
  const waiting = client.call("act", { wait: true }, caller.signal);
  await Bun.sleep(0);
  caller.abort(new Error("left"));
  expect(waiting).rejects.toThrow("left");
  await waiting.catch(() => {});
  expect((await client.call("act", {}, NEVER)).text).toBe("2");
});

test("progress keeps a long call alive, and silence ends it", async () => {
  const onCall = `let left = params.arguments.times;
    const timer = setInterval(() => {
      if (left-- > 0) return send({ method: "notifications/progress", params: { progressToken: params._meta.progressToken, progress: 1 } });
      clearInterval(timer);
      if (params.arguments.ends) reply("done");
    }, 200);`;
  const { client } = await started(onCall, "", { times: { callMs: 1_500 } });
  expect((await client.call("act", { times: 10, ends: true }, NEVER)).text).toBe("done");
  expect(await messageOf(client.call("act", { times: 1 }, NEVER))).toBe("did not answer to tools/call within 1500 ms");
});

test.each([
  ["never answers", "", "did not answer to tools/call within 1000 ms"],
  ["answers with the id of no request", `send({ id: 999, result: { content: [] } })`, "did not answer"],
  ["answers with an id of another type", `send({ id: String(id), result: { content: [] } })`, "did not answer"],
  [
    "writes lines that are no messages",
    `console.log("[]"); console.log("nothing"); console.log("1")`,
    "did not answer",
  ],
  ["answers with a list instead of a result", `send({ id, result: [] })`, "broke the protocol"],
  ["answers with a content of another form", `send({ id, result: { content: "text" } })`, "broke the protocol"],
  ["answers with too many parts", `send({ id, result: { content: Array(2000).fill({ type: "text" }) } })`, "broke the"],
  [
    "answers with an error",
    `send({ id, error: { code: 1, message: "no such tool" } })`,
    "answers with an error: no such",
  ],
  ["ends", `console.error("out of luck"); process.exit(3)`, "ended with exit code 3. Its last output: out of luck"],
  ["is killed", `process.kill(process.pid, "SIGKILL")`, "ended"],
  [
    "sends a line without an end",
    `setInterval(() => process.stdout.write("x".repeat(65536)), 1)`,
    "sent too much output",
  ],
  [
    "sends endless lines",
    `const spam = () => { while (process.stdout.write("{}\\n".repeat(20000))); process.stdout.once("drain", spam); }; spam()`,
    "sent too much output",
  ],
])(
  "a server that %s costs its call alone",
  async (_what, onCall, error) => {
    const times = { callMs: error.includes("within") || error === "did not answer" ? 1_000 : 60_000 };
    const { client } = await started(onCall, "", { times });
    expect(await messageOf(client.call("act", {}, NEVER))).toStartWith(error);
  },
  60_000,
);

test.each([
  ["a schema that is huge", `tools[0].inputSchema.x = "x".repeat(70000)`, "whose schema has more than"],
  ["a list that is huge", `tools[0].description = "x".repeat(300000)`, "sent too much output"],
  [
    "too many tools",
    `for (let i = 0; i < 600; i++) tools.push({ name: "t" + i, inputSchema: {} })`,
    "broke the protocol",
  ],
  ["a tool without a schema", `delete tools[0].inputSchema`, "broke the protocol"],
])("a server with %s is refused", async (_what, more, error) => {
  const { client } = await started("", more);
  expect(await messageOf(client.tools(NEVER))).toContain(error);
});

test("a server that forks without end is held by its jail, and leaves nothing behind", async () => {
  const onCall = `const { spawn } = require("node:child_process");
    let failed = 0;
    const fork = () => { const c = spawn("sleep", ["1000"]); c.on("error", () => { if (++failed === 1) reply("full"); }); };
    for (let i = 0; i < 200; i++) fork();`;
  const { client, pid } = await started(onCall);
  expect((await client.call("act", {}, NEVER)).text).toBe("full");
  await client.close();
  await until("the jail to be gone", async () => !(await Bun.file(`/proc/${pid}/status`).exists()));
});

/** A server over HTTP that answers each message by `answer`. */
type Sent = { id?: number; method?: string; params?: object };
function httpServer(answer: (message: Sent, request: Request) => Response | Promise<Response>) {
  const seen: { method: string; headers: Record<string, string> }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const text = await request.text();
      const body: Sent = text === "" ? {} : JSON.parse(text);
      seen.push({ method: request.method, headers: Object.fromEntries(request.headers) });
      const { id, method } = body;
      if (method === "initialize")
        return Response.json(
          { jsonrpc: "2.0", id, result: { protocolVersion: "2025-06-18", capabilities: {} } },
          { headers: { "mcp-session-id": "session-1" } },
        );
      if (method && id === undefined) return new Response(null, { status: 202 });
      return answer(body, request);
    },
  });
  open.push({ close: () => server.stop(true) });
  return { url: `http://127.0.0.1:${server.port}/mcp`, seen };
}

const network = (allow: string[]) => ({ allow_private: false, allow, ca_file: "" });
async function connected(url: string, times: object = {}, allow = ["127.0.0.1/32"]) {
  const dial = guardedOpenDial(network(allow) as never);
  const transport = httpTransport({ url, headers: { authorization: "Bearer secret" }, dial });
  const client = await McpClient.open(transport, NEVER, { ...TIMES, ...times });
  open.push(client);
  return client;
}
const result = (id: number, text: string) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } });
const stream = (text: string) => new Response(text, { headers: { "content-type": "text/event-stream" } });

test("over HTTP a call has the session, the version and the credentials, and may be answered by a stream", async () => {
  const { url, seen } = httpServer(({ id = 0 }) =>
    stream(
      `: hello\n\nevent: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${id}}}\n\n` +
        `data: ${JSON.stringify(result(id, "one"))}\r\n\r\n`,
    ),
  );
  const client = await connected(url);
  expect((await client.call("act", {}, NEVER)).text).toBe("one");
  expect(seen[2]?.headers).toMatchObject({
    authorization: "Bearer secret",
    "mcp-session-id": "session-1",
    "mcp-protocol-version": "2025-06-18",
  });
  await client.close();
  expect(seen.at(-1)?.method).toBe("DELETE");
});

test("a stream that breaks off is continued behind its last event", async () => {
  const { url, seen } = httpServer((body, request) =>
    request.method === "GET"
      ? stream(`data: ${JSON.stringify(result(2, "late"))}\n\n`)
      : body.method === undefined
        ? new Response(null, { status: 405 })
        : stream("id: e7\nretry: 5\ndata: \n\n"),
  );
  const client = await connected(url);
  expect((await client.call("act", {}, NEVER)).text).toBe("late");
  expect(seen.find(({ method }) => method === "GET")?.headers["last-event-id"]).toBe("e7");
});

const endless = (piece: string) =>
  new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new TextEncoder().encode(piece)) }), {
    headers: { "content-type": piece.startsWith("{") ? "application/json" : "text/event-stream" },
  });

test.each([
  [
    "redirects to an inner address",
    () => Response.redirect("http://169.254.169.254/latest"),
    "answers with a redirect (302)",
  ],
  ["answers with the id of another request", () => Response.json(result(99, "x")), "answered with the id of another"],
  ["ends its stream", () => stream("data: \n\n"), "ended its stream without an answer"],
  ["sends an endless answer", () => endless(`{"a":"${"x".repeat(60_000)}`), "sent an answer of more than"],
  [
    "sends an endless event",
    () => endless(`data: ${"x".repeat(60_000)}`),
    "cannot be used: sent an event of more than",
  ],
  [
    "sends endless events",
    () => endless(`data: {"jsonrpc":"2.0","method":"x"}\n\n`.repeat(1000)),
    "sent more than 10000 events",
  ],
  ["refuses the key", () => new Response("no", { status: 401 }), "refuses the credentials (401)"],
  ["has lost the session", () => new Response("no", { status: 404 }), "has ended the session"],
  ["answers with a page", () => new Response("<html>"), "broke the protocol"],
  ["never answers", () => new Promise<Response>(() => {}), "did not answer to tools/call within 1000 ms"],
] as const)("a server that %s costs its call alone", async (_what, answer, error) => {
  const { url } = httpServer(({ method, id }) =>
    method === "ping" ? Response.json({ jsonrpc: "2.0", id, result: {} }) : method ? answer() : new Response(null),
  );
  const client = await connected(url, { callMs: error.includes("within") ? 1_000 : 60_000 });
  expect(await messageOf(client.call("act", {}, NEVER))).toStartWith(error);
  if (!client.isOver) await client.ping(NEVER);
});

test("an inner address is refused by the guard before any connection", async () => {
  const { url, seen } = httpServer(() => new Response(null));
  expect(await messageOf(connected(url, {}, []))).toContain("loopback");
  for (const inner of ["http://169.254.169.254/mcp", "http://10.0.0.7/mcp", "http://[::1]/mcp"])
    expect(await messageOf(connected(inner, {}, []))).toStartWith("cannot be used");
  expect(seen).toEqual([]);
});

test("a server that speaks an unknown version is refused", async () => {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) =>
      Response.json({
        jsonrpc: "2.0",
        id: ((await request.json()) as Sent).id,
        result: { protocolVersion: "1", capabilities: {} },
      }),
  });
  open.push({ close: () => server.stop(true) });
  expect(await messageOf(connected(`http://127.0.0.1:${server.port}`))).toStartWith("speaks the protocol 1");
});

test("a result becomes text: pictures are named, long texts are cut", () => {
  const texts = [
    textOf({
      content: [
        { type: "text", text: "a" },
        { type: "image", mimeType: "image/png" },
      ],
    }),
    textOf({ content: [{ type: "resource", resource: { uri: "file:///x", text: "body" } }] }),
    textOf({ content: [{ type: "resource_link", uri: "file:///y" }] }),
    textOf({ content: [], structuredContent: { sum: 3 } }),
  ];
  expect(texts).toEqual(["a\n[image image/png]", "body", "[resource_link file:///y]", '{"sum":3}']);
  expect(textOf({ content: [{ type: "text", text: "x".repeat(100_000) }] })).toEndWith("the first 65536 are shown]");
});
