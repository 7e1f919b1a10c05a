// tier: all (attacks on the whole program)
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { until } from "../harness.ts";
import { framings } from "./http_framing.ts";

setDefaultTimeout(120_000);
let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;
const sockets: Socket[] = [];
beforeAll(async () => {
  server = await startBinary({ env: { VERK_HTTP__IDLE_TIMEOUT_SECONDS: "20" } });
  key = (await makeKey(server.dir)).key;
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await server.kill("SIGTERM");
  await server.exited;
  rmSync(server.dir, { recursive: true, force: true });
});

/** A connection, and what came over it so far. */
function dial() {
  const seen = { text: "", closed: false };
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  sockets.push(socket);
  socket.on("data", (bytes) => {
    seen.text += bytes;
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    seen.closed = true;
  });
  return {
    socket,
    seen,
    statuses: () => (seen.text.match(/HTTP\/1\.1 \d{3}/g) ?? []).map((line) => Number(line.slice(9))),
  };
}

const names = framings("", (name) => name).map(({ name }) => [name] as const);
const mark = (name: string) => `smuggled-${name.replaceAll(/\W/g, "-")}`;

describe("the framing of a request", () => {
  test.each(names)("%s", async (name) => {
    const framing = framings(key, mark).find((each) => each.name === name)!;
    const { socket, seen, statuses } = dial();
    socket.write(framing.text, "latin1");
    await until("an answer or the end", () => statuses().length > 0 || seen.closed);
    if (framing.expect === "ambiguous") {
      await until("the end of the connection", () => seen.closed);
      expect(statuses()).toEqual([400]);
    }
    if (framing.expect === "refused") expect(statuses().filter((status) => status < 400)).toEqual([]);
    if (framing.expect === "plain") expect(statuses()).toEqual([200]);
    const before = statuses().length;
    expect(before).toBeLessThanOrEqual(1);
    // What is answered between two requests of ours was taken for a request of its own.
    socket.write("GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    await until("the end of the connection", () => seen.closed, 60_000);
    expect(statuses().length).toBeLessThanOrEqual(before + 1);
    const list = await fetch(`${server.url}/v1/volumes`, { headers: { authorization: `Bearer ${key}` } });
    expect(await list.json()).toMatchObject({ data: [] });
  });

  test("the list has more than 29 requests, and each inner request works by itself", async () => {
    expect(names.length).toBeGreaterThan(29);
    const [first] = framings(key, mark);
    const { socket, statuses } = dial();
    socket.write(first!.text.slice(first!.text.indexOf("POST /v1/volumes")), "latin1");
    await until("an answer", () => statuses().length > 0);
    expect(statuses()).toEqual([201]);
    await fetch(`${server.url}/v1/volumes/${mark(first!.name)}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${key}` },
    });
  });
});

/** Sends a byte again and again, so that the connection is never idle. */
function drip(socket: Socket, byte: string) {
  const timer = setInterval(() => socket.write(byte), 200);
  socket.on("close", () => clearInterval(timer));
}

describe("a slow client without a key", () => {
  test("with its headers, or without sending anything, is disconnected", async () => {
    const [silent, slow] = [dial(), dial()];
    slow.socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ");
    drip(slow.socket, "a");
    await until("the end of the connections", () => slow.seen.closed && silent.seen.closed, 110_000);
    expect(slow.statuses().filter((status) => status < 400)).toEqual([]);
    expect(silent.statuses()).toEqual([]);
  });

  test("with a body that needs a key is refused before it is read", async () => {
    const { socket, statuses } = dial();
    socket.write(
      "POST /v1/volumes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{",
    );
    drip(socket, " ");
    await until("an answer", () => statuses().length > 0, 110_000);
    expect(statuses()).toEqual([401]);
  });

  test("delays no other client meanwhile", async () => {
    for (let i = 0; i < 50; i++) {
      const { socket } = dial();
      socket.write(
        "POST /setup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
      );
      drip(socket, " ");
    }
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  });
});
