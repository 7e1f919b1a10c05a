/** A stream begins within a second and is never silent for long, in the format of each client. */
import { afterEach, expect, test } from "bun:test";
import { fakeClock, manyApps, until } from "../../../../../test/harness.ts";
import { pretendServing } from "../../../../../test/pretend_replica.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const MESSAGES = [{ role: "user", content: "hi" }];
const FORMATS = [
  {
    path: "/v1/chat/completions",
    body: { messages: MESSAGES },
    ping: ": waiting\n\n",
    broken: /^data: \{"error":.*"worker_failed"/,
  },
  { path: "/v1/completions", body: { prompt: "hi" }, ping: ": waiting\n\n", broken: /^data: \{"error":/ },
  { path: "/completion", body: { prompt: "hi" }, ping: ": waiting\n\n", broken: /^data: \{"error":/ },
  { path: "/v1/responses", body: { input: "hi" }, ping: ": waiting\n\n", broken: /event: response\.failed\n/ },
  {
    path: "/v1/messages",
    body: { messages: MESSAGES, max_tokens: 4 },
    ping: 'event: ping\ndata: {"type":"ping"}\n\n',
    broken: /^event: error\ndata: .*"api_error"/,
  },
  { path: "/api/chat", body: { messages: MESSAGES }, ping: " ", broken: /^\{"error":/ },
  { path: "/api/generate", body: { prompt: "hi" }, ping: " ", broken: /^\{"error":/ },
];

/** `answer`: called with the function that lets the worker answer. */
async function silent() {
  const clock = fakeClock();
  const app = open({ parts: ["models"], clock });
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  const requests: PromiseWithResolvers<Response>[] = [];
  pretendServing(app, body.id, {
    worker: () => () => {
      const answer = Promise.withResolvers<Response>();
      requests.push(answer);
      return answer.promise;
    },
  });
  const stream = async (path: string, fields: object) => {
    const headers = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ model: "d", stream: true, ...fields }) };
    const answering = Promise.resolve(app.handle(new Request(`http://localhost${path}`, init)));
    const worker = await until("the worker to have the request", () => requests.shift());
    return { answering, worker };
  };
  return { clock, stream };
}

for (const { path, body, ping, broken } of FORMATS)
  test(`${path}: a comment within a second, one every ten seconds, and an error as an event`, async () => {
    const { clock, stream } = await silent();
    const { answering, worker } = await stream(path, body);
    clock.advance(1_000);
    const answer = await answering;
    expect(answer.status).toBe(200);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await read()).toBe(ping);
    for (let i = 0; i < 3; i++) {
      const next = read();
      clock.advance(10_000);
      expect(await next).toBe(ping);
    }
    const message = "The model stopped working on this request. Try again";
    worker.resolve(
      Response.json({ error: { code: "worker_failed", type: "api_error", message, param: null } }, { status: 502 }),
    );
    expect(await read()).toMatch(broken);
  });

test("a stream that is refused within a second has the status of its error", async () => {
  const { stream } = await silent();
  const { answering, worker } = await stream("/v1/chat/completions", { messages: MESSAGES });
  const error = { code: "context_length_exceeded", type: "invalid_request_error", message: "too long", param: null };
  worker.resolve(Response.json({ error }, { status: 400 }));
  const answer = await answering;
  expect([answer.status, ((await answer.json()) as { error: object }).error]).toEqual([400, error]);
});
