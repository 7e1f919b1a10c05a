// tier: all (many seconds)
/** H2: bodies that never end. The executable in a process of its own, because its memory is what counts. */
import { afterEach, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { until } from "../harness.ts";

const MIB = 1 << 20;
const BODY_BYTES = 10 * MIB;
const BODIES = 200;
const WORKSPACE_BYTES = 64 * MIB;

let server: Awaited<ReturnType<typeof startBinary>>;
let attacker = "";
let other = "";
afterEach(() => server?.kill());

async function start(bodyTimeoutSeconds: number) {
  const env = {
    VERK_HTTP__WORKSPACE_BODY_MEMORY_BYTES: String(WORKSPACE_BYTES),
    VERK_HTTP__BODY_TIMEOUT_SECONDS: String(bodyTimeoutSeconds),
  };
  server = await startBinary({ env });
  const admin = (await makeKey(server.dir, "--scope", "admin")).key;
  const headers = { authorization: `Bearer ${admin}`, "content-type": "application/json" };
  const body = JSON.stringify({ name: "other" });
  expect((await fetch(`${server.url}/v1/workspaces`, { method: "POST", headers, body })).status).toBe(201);
  attacker = (await makeKey(server.dir)).key;
  other = (await makeKey(server.dir, "--workspace", "other")).key;
}

const rssBytes = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) * 1024;

type Unfinished = { socket: Socket; answer: () => string; sent: () => boolean };

/** All of a body but its last byte. */
function unfinished(chunked: boolean): Unfinished {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  let text = "";
  let left = BODY_BYTES - 1;
  socket.on("data", (bytes) => {
    text += bytes;
  });
  socket.on("error", () => {});
  const length = chunked ? "Transfer-Encoding: chunked" : `Content-Length: ${BODY_BYTES}`;
  const auth = `Authorization: Bearer ${attacker}\r\nContent-Type: application/json`;
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n${auth}\r\n${length}\r\n\r\n`);
  const piece = Buffer.alloc(65_536, 32);
  const pour = () => {
    while (left > 0 && !socket.destroyed) {
      const bytes = piece.subarray(0, Math.min(left, piece.length));
      left -= bytes.length;
      if (chunked) socket.write(`${bytes.length.toString(16)}\r\n`);
      const flowing = socket.write(bytes);
      if (chunked) socket.write("\r\n");
      if (!flowing) return void socket.once("drain", pour);
    }
  };
  pour();
  return { socket, answer: () => text, sent: () => left === 0 };
}

async function ask(key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = `{"model":"none","messages":[{"role":"user","content":"${"x".repeat(MIB)}"}]}`;
  return (await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers, body })).status;
}

test.each([
  ["of a declared length", false],
  ["that come in chunks", true],
])(
  "H2: 200 unfinished bodies %s take bounded memory, other requests are served, and all memory is released",
  async (_name, chunked) => {
    await start(300);
    expect(await ask(attacker)).toBe(404); // no such deployment: the body was read
    const before = rssBytes();
    const all = Array.from({ length: BODIES }, () => unfinished(chunked));
    // Each is refused, or has sent what it has.
    await until("the bodies", () => all.every(({ answer, sent }) => sent() || answer() !== ""));
    const refused = () => all.filter(({ answer }) => answer().startsWith("HTTP/1.1 503")).length;
    await until("the refusals", () => refused() >= BODIES - Math.floor(WORKSPACE_BYTES / BODY_BYTES) - 1);
    expect(rssBytes() - before).toBeLessThan(5 * WORKSPACE_BYTES); // 200 bodies are thirty times as much
    expect(await ask(other)).toBe(404);
    for (const { socket } of all) socket.destroy();
    await until("room again", async () => (await ask(attacker)) === 404);
  },
  120_000,
);

test("H2: a body that arrives slowly is cut off in time, and its bytes are released", async () => {
  await start(2);
  const slow = Array.from({ length: 6 }, () => unfinished(false));
  await until("the end of the slow bodies", () => slow.every(({ answer, socket }) => answer() || socket.destroyed));
  // A sender that is still at it may be cut off before it reads why.
  const told = slow.map(({ answer }) => answer()).filter((text) => text !== "");
  expect(told.length).toBeGreaterThan(0);
  for (const text of told) expect(text).toContain("did not arrive within 2 seconds");
  expect(await ask(attacker)).toBe(404);
}, 60_000);
