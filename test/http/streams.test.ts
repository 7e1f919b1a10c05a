/** M2: limits of open streams, and what stays reserved for other clients. */
import { afterEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { createStreams } from "../../src/http/limits/streams.ts";
import { connectionsLeft } from "../../src/platform/machine/descriptors.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { manyApps, type TestApp, until } from "../harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const stream = (app: TestApp, key = app.keyA) =>
  app.handle(
    new Request("http://localhost/v1/events?stream=1", { headers: { authorization: `Bearer ${key}` } }),
  ) as Promise<Response>;
const refusal = async (response: Response) => {
  const { error } = (await response.json()) as { error: { message: string } };
  return [response.status, response.headers.get("retry-after"), error.message];
};

describe("M2: open streams", () => {
  test("a key may have a limited number; a stream that ends makes room", async () => {
    const app = open({ flags: { "http.max_streams_per_key": 3 } });
    const streams = await Promise.all([1, 2, 3].map(() => stream(app)));
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await refusal(await stream(app))).toEqual([
      429,
      "5",
      "This key has 3 streams open, the most at a time: close some",
    ]);
    expect((await stream(app, app.keyOf("alpha", ["*"]).key)).status).toBe(200);
    await streams[0]?.body?.cancel();
    expect((await stream(app)).status).toBe(200);
    expect((await stream(app)).status).toBe(429);
  });

  test("a workspace has a limit for all of its keys, and the server has a limit for all workspaces", async () => {
    const app = open({ flags: { "http.max_streams_per_workspace": 2, "http.max_streams": 3 } });
    const other = app.keyOf("alpha", ["*"]).key;
    expect((await stream(app)).status).toBe(200);
    expect((await stream(app, other)).status).toBe(200);
    expect(await refusal(await stream(app, other))).toEqual([
      429,
      "5",
      "This workspace has 2 streams open, the most at a time: close some",
    ]);
    expect((await stream(app, app.keyB)).status).toBe(200);
    expect((await stream(app, app.keyB)).status).toBe(503);
    expect((await app.call("GET", "/v1/events", undefined, { key: app.keyB })).status).toBe(200);
  });

  test("a revoked key releases its streams", async () => {
    const app = open({ flags: { "http.max_streams_per_workspace": 1 } });
    const { key, row } = app.keyOf("alpha", ["*"]);
    const reading = (await stream(app, key)).text();
    expect((await stream(app)).status).toBe(429);
    await app.call("DELETE", `/v1/api_keys/${row.id}`);
    await app.call("PUT", "/v1/secrets/X", { value: "x" });
    await reading;
    expect((await stream(app)).status).toBe(200);
  });

  test("a HEAD of a stream uses no slot", async () => {
    const app = open({ flags: { "http.max_streams_per_key": 1 } });
    const headers = { authorization: `Bearer ${app.keyA}` };
    for (let i = 0; i < 3; i++)
      await app.handle(new Request("http://localhost/v1/events?stream=1", { method: "HEAD", headers }));
    expect((await stream(app)).status).toBe(200);
  });

  test("no stream opens when few descriptors are left, and closing twice counts once", () => {
    let left: number | undefined = 1_000;
    const streams = createStreams({ key: 2, workspace: 0, all: 0 }, () => left);
    const holder = { keyId: "k", workspaceId: "w" };
    const close = streams.open(holder);
    left = 10;
    expect(() => streams.open(holder)).toThrow("few connections");
    left = undefined;
    streams.open(holder);
    expect(() => streams.open(holder)).toThrow("This key has 2 streams open");
    close();
    close();
    streams.open(holder);
    expect(() => streams.open(holder)).toThrow("This key has 2 streams open");
  });
});

test("M2: a server with few descriptors refuses streams and still answers requests", async () => {
  expect(connectionsLeft()).toBeGreaterThan(0);
  const prefix = ["prlimit", "--nofile=400:400"];
  const server = await startBinary({ prefix, env: { VERK_HTTP__MAX_STREAMS_PER_KEY: "0" } });
  const sockets: Socket[] = [];
  try {
    const { key } = await makeKey(server.dir);
    const { hostname, port } = new URL(server.url);
    const answers: string[] = [];
    for (let i = 0; i < 380; i++) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      socket.once("data", (bytes) => answers.push(bytes.toString().slice(9, 12)));
      socket.write(`GET /v1/events?stream=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`);
      sockets.push(socket);
      if (i % 20 === 19) await until("their answers", () => answers.length >= Math.min(i, 250) - 20);
      if (answers.includes("503")) break;
    }
    await until("a refusal", () => answers.includes("503"));
    expect(answers.filter((status) => status === "200").length).toBeGreaterThan(100);
    const auth = { headers: { authorization: `Bearer ${key}` } };
    for (let i = 0; i < 20; i++) expect((await fetch(`${server.url}/v1/account`, auth)).status).toBe(200);
    for (const socket of sockets.splice(0)) socket.destroy();
    await until("room again", async () => {
      const again = await fetch(`${server.url}/v1/events?stream=1`, auth);
      await again.body?.cancel();
      return again.status === 200;
    });
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.kill();
  }
}, 120_000);
