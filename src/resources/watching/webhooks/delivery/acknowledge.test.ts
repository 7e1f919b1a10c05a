import { afterEach, beforeEach, expect, test } from "bun:test";
import { createServer, type TLSSocket } from "node:tls";
import { fakeClock, type TestApp, testApp, until } from "../../../../../test/harness.ts";
import { addEndpoint, emitCompleted, TLS_FLAGS, TLS_SERVER } from "../../../../../test/webhooks_kit.ts";
import { webhookAttempts, webhookDeliveries } from "../table.ts";
import { deliver } from "./deliver.ts";
import { fanOut } from "./fan_out.ts";
import { close } from "./live.ts";

const never = new AbortController().signal;
const clock = fakeClock(Date.now());
const sockets: TLSSocket[] = [];
let server: ReturnType<typeof createServer>;
let app: TestApp;
/** The receiver sends the head at once, the rest when a test calls `sendRest`. */
let head = "";
let rest = Promise.withResolvers<string>();

beforeEach(async () => {
  app = testApp({ clock, flags: TLS_FLAGS });
  rest = Promise.withResolvers<string>();
  server = createServer({ key: await TLS_SERVER.key.text(), cert: await TLS_SERVER.cert.text() }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", () => {
      socket.write(head);
      void rest.promise.then((text) => socket.write(text));
    });
  });
  server.listen(0, "127.0.0.1");
  const port = await until("the port", () => (server.address() as { port: number } | null)?.port);
  addEndpoint(app.ctx, { url: `https://127.0.0.1:${port}/`, workspaceId: app.workspaceA });
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
  await close(app.ctx, AbortSignal.abort());
  await app.close().then(app.remove);
});

const sendAll = async () => {
  emitCompleted(app.ctx, app.workspaceA);
  await fanOut(app.ctx);
  await deliver(app.ctx, never);
  await app.ctx.state.webhooks.idle();
};
const statuses = () =>
  app.ctx.db
    .select()
    .from(webhookDeliveries)
    .all()
    .map(({ status }) => status);
const bodies = () =>
  app.ctx.db
    .select()
    .from(webhookAttempts)
    .all()
    .map(({ responseBody }) => responseBody);

test.each(["content-length: 5", "transfer-encoding: chunked"])(
  "P16 any 2xx acknowledges at its status line (%s); a body that comes later is added to the record",
  async (header) => {
    head = `HTTP/1.1 200 OK\r\n${header}\r\n\r\n`;
    await sendAll(); // ends although the body has not come
    expect([statuses(), bodies()]).toEqual([["succeeded"], [null]]);
    rest.resolve(header.startsWith("content") ? "later" : "5\r\nlater\r\n0\r\n\r\n");
    await until("the body", () => bodies()[0] === "later");
  },
);

test("P16 a 2xx whose body never ends is a success; what came of it is kept, and the connection is closed", async () => {
  head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
  await sendAll();
  expect(statuses()).toEqual(["succeeded"]);
  await until("the end of the connection", () => sockets[0]?.destroyed);
  await until("the body", () => bodies()[0] === "abc");
});

test("P16 a 2xx that is cut off after its status line is a success", async () => {
  head = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nab";
  await sendAll();
  sockets[0]?.destroy();
  expect(statuses()).toEqual(["succeeded"]);
});

test("a body that comes with the status is in the record at once", async () => {
  head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
  await sendAll();
  expect([statuses(), bodies()]).toEqual([["succeeded"], ["ok"]]);
});
