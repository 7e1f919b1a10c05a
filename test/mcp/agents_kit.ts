/** Agents with MCP servers: a model that follows a script, a server over HTTP, and one of a few lines of shell. */
import type { TestApp } from "../harness.ts";
import { pretendServing } from "../pretend_replica.ts";

export type Body = {
  messages: { role: string; content: string | null; tool_calls?: { id: string; function: { name: string } }[] }[];
  tools?: { function: { name: string; description?: string } }[];
  tool_choice?: unknown;
  stream?: boolean;
  stream_options?: object;
};
/** An answer of the model: a text, or calls by name with their arguments. */
export type Said = string | { text?: string; calls: [name: string, args: unknown][] };

const USAGE = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };

/** `said` has one answer for each turn. Returns the requests of the model. */
export async function scriptedModel(app: TestApp, said: (Said | ((body: Body) => Said))[], name = "served") {
  const { body } = await app.call("POST", "/v1/deployments", { model: "test/model", name });
  const requests: Body[] = [];
  pretendServing(app, body.id, {
    parallel: 4,
    worker: (report) => async (request) => {
      const question = (await request.json()) as Body;
      const next = said[requests.length] ?? "out of script";
      requests.push(question);
      const answer = typeof next === "function" ? next(question) : next;
      const head = { id: `chatcmpl-${requests.length}`, created: 1, model: name, system_fingerprint: "fp" };
      const used = { status: 200, prompt_tokens: 10, cached_tokens: 0, completion_tokens: 2, error: null };
      report({ type: "served", request: request.headers.get("x-verk-request") ?? "", ...used } as never);
      return question.stream ? streamOf(answer, head, requests.length) : wholeOf(answer, head, requests.length);
    },
  });
  return { requests, id: body.id as string };
}

const callsOf = (said: Said, turn: number) =>
  (typeof said === "string" ? [] : said.calls).map(([name, args], i) => ({
    id: `call_${turn}_${i}`,
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
  }));
const textOf = (said: Said) => (typeof said === "string" ? said : (said.text ?? ""));

function wholeOf(said: Said, head: object, turn: number): Response {
  const calls = callsOf(said, turn);
  const message = { role: "assistant", content: textOf(said) || null, refusal: null };
  const choice = {
    index: 0,
    message: calls.length > 0 ? { ...message, tool_calls: calls } : message,
    logprobs: null,
    finish_reason: calls.length > 0 ? "tool_calls" : "stop",
  };
  return Response.json({ ...head, object: "chat.completion", choices: [choice], usage: USAGE });
}

function streamOf(said: Said, head: object, turn: number): Response {
  const calls = callsOf(said, turn);
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    usage: null,
  });
  const words = textOf(said)
    .split(/(?<= )/)
    .filter(Boolean);
  const chunks = [
    chunk({ role: "assistant", content: "" }),
    ...words.map((content) => chunk({ content })),
    ...calls.flatMap(({ function: { name, arguments: args }, ...call }, index) => [
      chunk({ tool_calls: [{ index, ...call, function: { name, arguments: "" } }] }),
      chunk({ tool_calls: [{ index, function: { arguments: args } }] }),
    ]),
    chunk({}, calls.length > 0 ? "tool_calls" : "stop"),
    { ...chunk({}), choices: [], usage: USAGE },
  ];
  const text = `${chunks.map((each) => `data: ${JSON.stringify(each)}\n\n`).join("")}data: [DONE]\n\n`;
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

type Message = { id?: number; method: string; params: { name?: string; arguments?: Record<string, unknown> } };
export type HttpTool = { name: string; description?: string; inputSchema?: object; annotations?: object };

/** A server over HTTP. `act` answers a call with a text, a result or a whole response. */
export function mcpServer(
  tools: HttpTool[],
  act: (name: string, args: Record<string, unknown>) => string | object | Promise<string | object>,
) {
  const seen: { method: string; headers: Headers; message: Message }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      if (request.method !== "POST") return new Response(null, { status: 405 });
      const message = (await request.json()) as Message;
      seen.push({ method: message.method, headers: request.headers, message });
      const reply = (result: object) => Response.json({ jsonrpc: "2.0", id: message.id, result });
      if (message.id === undefined) return new Response(null, { status: 202 });
      if (message.method === "initialize") return reply({ protocolVersion: "2025-11-25", capabilities: { tools: {} } });
      if (message.method === "tools/list")
        return reply({ tools: tools.map((tool) => ({ inputSchema: { type: "object" }, ...tool })) });
      const answer = await act(message.params.name ?? "", message.params.arguments ?? {});
      if (answer instanceof Response) return answer;
      return reply(typeof answer === "string" ? { content: [{ type: "text", text: answer }] } : answer);
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/mcp`,
    seen,
    calls: () => seen.filter(({ method }) => method === "tools/call").map(({ message }) => message.params),
    stop: () => server.stop(true),
  };
}

/** A server as a shell script. `act` runs for each call, and `$id` is the id of the call. */
export const shellServer = (act: string): string => `
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\\n' "$id" "$1"; }
text() { say "{\\"content\\":[{\\"type\\":\\"text\\",\\"text\\":\\"$1\\"}]}"; }
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\\([0-9]*\\).*/\\1/p')
  case "$line" in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{}}' ;;
    *'"method":"tools/list"'*) say '{"tools":[{"name":"act","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) ${act} ;;
  esac
done`;

export const LOCAL = { "network.allow": ["127.0.0.1/32"] };

export async function createAgent(app: TestApp, tools: object[], more: object = {}) {
  const answer = await app.call("POST", "/v1/agents", { name: "helper", deployment: "served", tools, ...more });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
}

export const chat = (app: TestApp, body: object = {}, options: object = {}) =>
  app.call(
    "POST",
    "/v1/chat/completions",
    { model: "helper", messages: [{ role: "user", content: "hi" }], ...body },
    options,
  );

type Chunk = {
  id: string;
  choices: { delta: Record<string, unknown>; finish_reason: string | null }[];
  usage?: object;
};

/** The chunks of a streamed chat. */
export async function streamed(app: TestApp, body: object = {}) {
  const request = new Request("http://localhost/v1/chat/completions", {
    method: "POST",
    headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "helper", messages: [{ role: "user", content: "hi" }], stream: true, ...body }),
  });
  const response = await app.handle(request);
  const text = await response.text();
  const lines = text.split("\n").filter((line) => line.startsWith("data: {"));
  return { response, text, chunks: lines.map((line) => JSON.parse(line.slice(6)) as Chunk) };
}
