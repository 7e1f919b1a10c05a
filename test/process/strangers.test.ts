// tier: all (whole paths on the executable)
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { startBinary, untilTinyIsReady } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { tempDir } from "../harness.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("in a directory that all users may enter, only the server's user may read its files", async () => {
  const dir = join(root, "open");
  mkdirSync(dir);
  const server = await startBinary({ dir, prefix: ["sh", "-c", 'umask 022; exec "$@"', "sh"] });
  await makeKey(dir);
  const modes = readdirSync(dir).map((name) => [name, statSync(join(dir, name)).mode & 0o077]);
  expect(modes.filter(([, others]) => others !== 0)).toEqual([]);
  expect(modes.map(([name]) => name)).toContain("verk.db");
  await server.kill("SIGTERM");
});

test("a crash of the server leaves no image of its memory", async () => {
  const dir = join(root, "core");
  mkdirSync(dir);
  const server = await startBinary({ dir, prefix: ["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh"] });
  expect(readFileSync(`/proc/${server.pid}/limits`, "utf8")).toMatch(/^Max core file size +0 +0 /m);
  await server.kill("SIGTERM");
});

test("a client that stops in the middle of a request cannot prevent a clean stop of the server", async () => {
  const dir = join(root, "stalled");
  mkdirSync(dir);
  const server = await startBinary({ dir, env: { VERK_SHUTDOWN__DEADLINE_MS: "3000" } });
  const { key } = await makeKey(dir, "--scope", "admin");
  await untilTinyIsReady(server.url, key); // a first start checks a file, which a stop waits for
  const head = `POST /v1/workspaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n`;
  const stalled = [`${head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`, "GET /healthz HTT"];
  const sockets = await Promise.all(stalled.map((text) => sendTo(server.url, text)));
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200); // by now it has seen the others
  const { code, stderr } = await server.kill("SIGTERM");
  expect([code, stderr.includes("timed_out")]).toEqual([0, false]);
  for (const socket of sockets) socket.destroy();
});

const sendTo = (url: string, text: string) =>
  new Promise<Socket>((done) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1", () => socket.write(text, () => done(socket)));
    socket.on("error", () => {}); // the server may reset it: that is what the test is about
  });
