import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { tempDir, until } from "../../../test/harness.ts";
import { openHub } from "./rank_hub.ts";
import { connectFirst } from "./rank_link.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const SECRET = "s".repeat(32);
const addresses = ["127.0.0.1"];

/** A trainer that collects what comes on its socket. */
async function openWorker(name: string) {
  const path = join(dir, `${name}.sock`);
  const streams: { socket: Socket; bytes: Buffer }[] = [];
  const server = createServer((socket) => {
    const stream = { socket, bytes: Buffer.alloc(0) };
    streams.push(stream);
    socket.on("data", (more: Buffer) => {
      stream.bytes = Buffer.concat([stream.bytes, more]);
    });
    socket.on("error", () => {});
  });
  await new Promise<void>((done) => server.listen(path, done));
  return { path, streams, close: () => server.close() };
}

test("a rank that knows the secret is joined to the trainer of rank 0, in both directions", async () => {
  const hub = await openHub({ secret: SECRET, count: 2 });
  const worker = await openWorker("first");
  hub.attach(worker.path);
  const socket = await connectFirst({ addresses: ["127.0.0.2", ...addresses], port: hub.port, secret: SECRET }, 1);
  const answer = new Promise<string>((done) => socket.once("data", (bytes) => done(bytes.toString())));
  await hub.joined;
  socket.write("sum");
  await until("the bytes", () => worker.streams[0]?.bytes.includes("sum") || undefined);
  expect([...worker.streams[0]!.bytes.subarray(0, 9)]).toEqual([0, 0, 0, 0, 4, 0, 0, 0, 1]); // hello of rank 1
  worker.streams[0]!.socket.write("total");
  expect(await answer).toBe("total");
  hub.close();
  await until("the end of the stream", () => socket.destroyed || undefined);
  worker.close();
});

test("another secret, a rank that is not expected, and noise reach no trainer", async () => {
  const hub = await openHub({ secret: SECRET, count: 2 });
  const worker = await openWorker("second");
  hub.attach(worker.path);
  const first = { addresses, port: hub.port };
  await expect(connectFirst({ ...first, secret: "x".repeat(32) }, 1)).rejects.toThrow(/cannot be reached/);
  const seventh = await connectFirst({ ...first, secret: SECRET }, 7);
  await until("the seventh to be refused", () => seventh.destroyed || undefined);
  const noise = connect(hub.port, "127.0.0.1");
  noise.on("error", () => {});
  noise.write(Buffer.alloc(200));
  noise.resume();
  await until("the noise to be refused", () => noise.destroyed || undefined);
  expect(worker.streams).toHaveLength(0);
  hub.close();
  worker.close();
});

test("a server that does not know the secret gets nothing", async () => {
  const server = createServer((socket) => {
    socket.write(Buffer.alloc(32));
    socket.once("data", () => socket.write(Buffer.alloc(32)));
  });
  await new Promise<void>((done) => server.listen(0, done));
  const { port } = server.address() as { port: number };
  await expect(connectFirst({ addresses, port, secret: SECRET }, 1)).rejects.toThrow(/does not know the secret/);
  server.close();
});
