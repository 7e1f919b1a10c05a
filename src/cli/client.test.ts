import { afterAll, beforeAll, expect, test } from "bun:test";
import { ApiError, createClient, readEvents } from "./client.ts";

const answers: Record<string, () => Response> = {
  "/envelope": () =>
    Response.json(
      { error: { type: "validation_error", code: "schema", message: "must not be empty", param: "/name" } },
      { status: 422, headers: { "x-request-id": "req_1" } },
    ),
  "/line": () =>
    Response.json(
      { error: { type: "validation_error", code: "schema", message: "Line 17: it is no row", param: "/16" } },
      { status: 422 },
    ),
  "/inner": () =>
    Response.json(
      { error: { type: "validation_error", code: "schema", message: "lora.r: expected a number", param: "/lora/r" } },
      { status: 422 },
    ),
  "/page": () => new Response("<html>Welcome</html>"),
  "/nothing": () => Response.json(null),
  "/garbage": () => new Response("data: {not json\n\n"),
  "/proxy": () => new Response("<h1>Bad Gateway</h1>", { status: 502 }),
};
let server: Bun.Server<undefined>;
beforeAll(() => {
  server = Bun.serve({
    port: 0,
    fetch: (request) =>
      answers[new URL(request.url).pathname]?.() ??
      Response.json({ object: "auth", auth: request.headers.get("authorization") }),
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
  expect(error.message).toBe("/name: must not be empty");
  expect(error).toMatchObject({ status: 422, code: "schema", param: "/name", requestId: "req_1" });
  expect([error.status, error.code]).toEqual([422, "schema"]);
});

test("a line of a file is named once", async () => {
  expect((await failure("/line")).message).toBe("Line 17: it is no row");
});

test("a field inside another is named once", async () => {
  expect((await failure("/inner")).message).toBe("lora.r: expected a number");
});

test("an answer that is not ours still tells its status", async () => {
  expect((await failure("/proxy")).message).toContain("502");
});

test("a page of another program at the address is reported as not a Verk server", async () => {
  for (const [path, said] of [
    ["/page", "<html>Welcome"],
    ["/nothing", "null"],
  ] as const) {
    const { message, status } = await failure(path);
    expect(message).toContain(`${server.url.origin} is not a Verk server`);
    expect(message).toContain(said);
    expect(status).toBe(0);
  }
});

const failureOfStream = async (path: string, url = server.url.origin) => {
  const events = createClient({ url }).stream(path, new AbortController().signal);
  return await Array.fromAsync(events).then(
    () => undefined,
    (error: unknown) => error,
  );
};

test("a stream that is no stream of events is an error in words", async () => {
  const error = await failureOfStream("/garbage");
  expect(error).toBeInstanceOf(ApiError);
  expect((error as Error).message).toBe("The server sent an event that is not JSON: {not json");
});

test("a connection that breaks in the middle of a stream is an error in words", async () => {
  const wire = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9000\r\n\r\ndata: 1\r\n\r\n";
  const broken = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(wire);
        socket.end();
      },
    },
  });
  const error = await failureOfStream("/", `http://127.0.0.1:${broken.port}`);
  broken.stop(true);
  expect(error).toBeInstanceOf(ApiError);
  expect((error as Error).message).toContain(`The connection to http://127.0.0.1:${broken.port} broke`);
});

test("a download that breaks in the middle is an error in words, not a short file", async () => {
  const wire = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
  const broken = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(wire);
        socket.end();
      },
    },
  });
  const url = `http://127.0.0.1:${broken.port}`;
  const chunks = createClient({ url }).download("/", new AbortController().signal);
  const error = await Array.fromAsync(chunks).catch((thrown: unknown) => thrown);
  broken.stop(true);
  expect((error as Error).message).toContain(`The connection to ${url} broke`);
});

test("a server that is not there is named", async () => {
  const stopped = Bun.serve({ port: 0, fetch: () => new Response() });
  const url = stopped.url.origin;
  await stopped.stop(true);
  await expect(createClient({ url }).call("GET", "/")).rejects.toThrow(`Cannot reach ${url}`);
});

test("the key goes along as a bearer token", async () => {
  const { body } = await createClient({ url: server.url.origin, key: "vk_x" }).call<{ auth: string }>("GET", "/other");
  expect(body.auth).toBe("Bearer vk_x");
});

test("events are read whole however the bytes are cut", async () => {
  const wire =
    'retry: 3000\n\nid: evt_1\nevent: a.b\ndata: {"x":"é"}\n\n: heartbeat\n\ndata: [1,\ndata: 2]\n\ndata: [DONE]\n\ndata: "cut off';
  for (const [size, end] of [1, 3, 7, 1000].flatMap((size) => [[size, "\n"] as const, [size, "\r\n"] as const])) {
    const bytes = new TextEncoder().encode(wire.replaceAll("\n", end));
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
