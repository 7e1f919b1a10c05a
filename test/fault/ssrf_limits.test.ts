import { afterEach, expect, test } from "bun:test";
import type { Socket } from "node:net";
import { join } from "node:path";
import { DialError, type Lookup } from "../../src/platform/network/address.ts";
import { guardedDial } from "../../src/platform/network/http_client.ts";
import { until } from "../harness.ts";
import { flood, type Listener, listen, NO_CONTENT, TLS } from "./ssrf_listener.ts";

const dial = guardedDial({ allow_private: false, allow: ["127.0.0.1"], ca_file: join(TLS, "ca.pem") });
const lookup: Lookup = async () => [{ address: "127.0.0.1" }];
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});
async function serve(talk: (socket: Socket) => void, options?: Parameters<typeof listen>[1]): Promise<Listener> {
  const seen = await listen(talk, options);
  stops.push(seen.stop);
  return seen;
}
const every = (socket: Socket, ms: number, text: string) => {
  const timer = setInterval(() => socket.write(text), ms);
  stops.push(() => clearInterval(timer));
};
const call = (seen: Listener, timeoutMs = 60_000) =>
  dial(`https://hooks.example:${seen.port}/hook`, { timeoutMs, method: "POST", body: "{}", lookup });
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "answered",
    (error) => (error instanceof DialError ? error.code : error),
  );
const closed = (seen: Listener) => until("the connection is closed", () => seen.connections > 0 && seen.open === 0);

const HEAD = "HTTP/1.1 200 OK\r\n";
const MiB = 1 << 20;

test.each([301, 302, 303, 307, 308])("a redirect with %d is the answer; its target gets no call", async (status) => {
  const inside = await serve((socket) => socket.end(NO_CONTENT), { plain: true });
  const to = `http://127.0.0.1:${inside.port}/inside`;
  const seen = await serve((socket) =>
    socket.end(`HTTP/1.1 ${status} Moved\r\nLocation: ${to}\r\nRefresh: 0;url=${to}\r\nContent-Length: 0\r\n\r\n`),
  );
  expect(await call(seen)).toMatchObject({ status });
  expect(inside.connections).toBe(0);
});

test.each([
  ["without an end", `${HEAD}\r\n`],
  ["of a promised length", `${HEAD}Content-Length: ${2 ** 40}\r\n\r\n`],
  ["in chunks", `${HEAD}Transfer-Encoding: chunked\r\n\r\n`],
])("for an endless body %s, 64 KiB are kept and the connection is closed", async (_what, head) => {
  const chunk = Buffer.alloc(65_536, "x");
  let sent = () => 0;
  const seen = await serve((socket) => {
    socket.write(head);
    sent = flood(
      socket,
      head.includes("chunked") ? Buffer.concat([Buffer.from("10000\r\n"), chunk, Buffer.from("\r\n")]) : chunk,
    );
  });
  const answer = await call(seen);
  expect(answer).toMatchObject({ status: 200, truncated: true });
  expect(answer.body.byteLength).toBe(65_536);
  await closed(seen);
  expect(sent()).toBeLessThan(64 * MiB); // what sockets hold in flight, not what a client would read in time
});

test("a body of exactly 64 KiB arrives whole, a longer one is cut", async () => {
  const answerWith = async (bytes: number) => {
    const seen = await serve((socket) => socket.end(`${HEAD}Content-Length: ${bytes}\r\n\r\n${"x".repeat(bytes)}`));
    const { body, truncated } = await call(seen);
    return [body.byteLength, truncated];
  };
  expect(await answerWith(65_536)).toEqual([65_536, false]);
  expect(await answerWith(65_537)).toEqual([65_536, true]);
});

test("a compressed answer is not decompressed", async () => {
  const packed = Bun.gzipSync(new Uint8Array(8 * MiB));
  const seen = await serve((socket) => {
    socket.write(`${HEAD}Content-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`);
    socket.end(packed);
  });
  expect((await call(seen)).body.byteLength).toBe(packed.length);
});

test.each([
  ["headers without end", "x-a: y\r\n".repeat(4096)],
  ["a header line without end", "y".repeat(65_536)],
])("%s: the exchange ends before its deadline, and few bytes are read", async (_what, text) => {
  let sent = () => 0;
  const seen = await serve((socket) => {
    socket.write(`${HEAD}x: `);
    sent = flood(socket, text);
  });
  expect(await codeOf(call(seen, 60_000))).toBe("connection");
  await closed(seen);
  expect(sent()).toBeLessThan(64 * MiB);
});

/** The one deadline is over all of it: each drip comes well within it, and still it ends. */
test.each<[string, (socket: Socket) => void]>([
  ["says nothing", () => {}],
  [
    "drips a header",
    (socket) => {
      socket.write(`${HEAD}x-a: `);
      every(socket, 5, "y");
    },
  ],
  [
    "drips header lines",
    (socket) => {
      socket.write(HEAD);
      every(socket, 5, "x-a: y\r\n");
    },
  ],
  ["sends interim answers for ever", (socket) => every(socket, 5, "HTTP/1.1 103 Early Hints\r\n\r\n")],
  [
    "drips its body",
    (socket) => {
      socket.write(`${HEAD}Content-Length: 100000\r\n\r\n`);
      every(socket, 5, "x");
    },
  ],
  ["stops in its body", (socket) => socket.write(`${HEAD}Content-Length: 100000\r\n\r\nxyz`)],
])("a server that %s reaches the deadline, and the connection is closed", async (_what, talk) => {
  const seen = await serve(talk);
  expect(await codeOf(call(seen, 150))).toBe("timeout");
  await closed(seen);
});

test("a server without a TLS handshake and a silent resolver reach the time limit too", async () => {
  const silent = await serve(() => {}, { plain: true });
  expect(await codeOf(call(silent, 150))).toBe("timeout");
  await closed(silent);
  const request = { timeoutMs: 50, lookup: () => new Promise<never>(() => {}) };
  expect(await codeOf(dial("https://hooks.example/", request))).toBe("timeout");
});
