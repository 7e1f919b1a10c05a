import { afterAll, beforeAll, expect, test } from "bun:test";
import { ApiError, createClient, readEvents } from "./client.ts";

const answers: Record<string, () => Response> = {
  "/envelope": () =>
    Response.json(
      { error: { type: "validation_error", code: "schema", message: "must not be empty", param: "/name" } },
      { status: 422, headers: { "x-request-id": "req_1" } },
    ),
  "/proxy": () => new Response("<h1>Bad Gateway</h1>", { status: 502 }),
};
let server: Bun.Server<undefined>;
beforeAll(() => {
  server = Bun.serve({
    port: 0,
    fetch: (request) =>
      answers[new URL(request.url).pathname]?.() ?? Response.json({ auth: request.headers.get("authorization") }),
  });
});
afterAll(() => server.stop(true));

const failure = async (path: string) => {
  const error = await createClient({ url: server.url.origin })
    .call("GET", path)
    .catch((thrown: unknown) => thrown);
  if (error instanceof ApiError) return error;
  throw new Error("no ApiError");
};

test("the envelope becomes one line with the field, the code and the request id", async () => {
  const error = await failure("/envelope");
  expect(error.message).toBe("/name: must not be empty (schema, 422, request req_1)");
  expect([error.status, error.code]).toEqual([422, "schema"]);
});

test("an answer that is not ours still tells its status", async () => {
  expect((await failure("/proxy")).message).toContain("502");
});

test("a server that is not there is named", async () => {
  const gone = Bun.serve({ port: 0, fetch: () => new Response() });
  const url = gone.url.origin;
  await gone.stop(true);
  await expect(createClient({ url }).call("GET", "/")).rejects.toThrow(`Cannot reach ${url}`);
});

test("the key goes along as a bearer token", async () => {
  const { body } = await createClient({ url: server.url.origin, key: "vk_x" }).call<{ auth: string }>("GET", "/other");
  expect(body.auth).toBe("Bearer vk_x");
});

test("events are read whole however the bytes are cut", async () => {
  const wire =
    'retry: 3000\n\nid: evt_1\nevent: a.b\ndata: {"x":"é"}\n\n: heartbeat\n\ndata: [1,\ndata: 2]\n\ndata: [DONE]\n\ndata: "cut off';
  const bytes = new TextEncoder().encode(wire);
  for (const size of [1, 3, 7, 1000]) {
    const chunks = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.subarray(at, at + size));
        controller.close();
      },
    });
    const comments: string[] = [];
    const events = readEvents(chunks, (text) => void comments.push(text));
    expect(await Array.fromAsync(events)).toEqual([
      { id: "evt_1", event: "a.b", data: { x: "é" } },
      { id: undefined, event: "message", data: [1, 2] },
    ]);
    expect(comments).toEqual(["heartbeat"]);
  }
});
