// tier: all (whole paths on the executable)
import { afterEach, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { sweep } from "../sweep.ts";

const dirs: string[] = [];
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

type Server = Awaited<ReturnType<typeof startBinary>>;
const sha256 = (bytes: string | Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

async function begin() {
  const dir = tempDir();
  dirs.push(dir);
  const { key } = await makeKey(dir);
  const server = await startBinary({ dir });
  await call(server, key, "POST", "/v1/volumes", { name: "lab" });
  return { dir, key, server };
}
async function call(server: Server, key: string, method: string, path: string, json?: unknown) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  });
  if (!response.ok) throw new Error(`${method} ${path} → ${response.status} ${await response.text()}`);
  return response;
}
const here = (server: Server, url: string) => `${server.url}${new URL(url).pathname}${new URL(url).search}`;
const ask = async (server: Server, key: string, json: object): Promise<{ url: string }> =>
  (await call(server, key, "POST", "/v1/volumes/lab/upload-url", json)).json();
/** Keys of the local storage: files whose name ends in `=`. */
const keys = (dir: string) =>
  readdirSync(join(dir, "storage/refs"), { recursive: true }).filter((name) => String(name).endsWith("="));
type File = { path: string; sha256: string };
const list = async (server: Server, key: string): Promise<File[]> => {
  const { data } = (await (await call(server, key, "GET", "/v1/volumes/lab/files?limit=100")).json()) as {
    data: File[];
  };
  return data;
};

/** A sender that can stop in the middle. */
async function sendHalf(server: Server, url: string, bytes: number) {
  const { hostname, port, pathname, search } = new URL(here(server, url));
  const socket = await Bun.connect({ hostname, port: Number(port), socket: { data() {} } });
  socket.write(`PUT ${pathname}${search} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes * 2}\r\n\r\n`);
  socket.write("x".repeat(bytes));
  socket.flush();
  return socket;
}
/** Bytes in files that have no name yet. */
const arriving = (dir: string) =>
  readdirSync(join(dir, "storage/tmp")).reduce(
    (sum, name) => sum + readFileSync(join(dir, "storage/tmp", name)).length,
    0,
  );

test("killed while a file arrives: the old file stays, the address works again, nothing else is kept", async () => {
  const { dir, key, server } = await begin();
  await call(server, key, "PUT", "/v1/volumes/lab/files/a", "old");
  const { url } = await ask(server, key, { path: "a" });
  await sendHalf(server, url, 100_000);
  await until("bytes on the disk", () => arriving(dir) > 0);
  await server.kill("SIGKILL");
  const again = await startBinary({ dir });
  expect(await (await call(again, key, "GET", "/v1/volumes/lab/files/a")).text()).toBe('"old"');
  expect((await fetch(here(again, url), { method: "PUT", body: "new" })).status).toBe(200);
  expect((await fetch(here(again, url), { method: "PUT", body: "new" })).status).toBe(409);
  expect(await (await call(again, key, "GET", "/v1/volumes/lab/files/a")).text()).toBe("new");
  await until("one key for one file", () => keys(dir).length === 1);
  await again.kill("SIGTERM");
  expect(violations(dir)).toEqual([]);
}, 120_000);

test("a sender that hangs up leaves nothing, and the address works again", async () => {
  const { dir, key, server } = await begin();
  const { url } = await ask(server, key, { path: "a" });
  const socket = await sendHalf(server, url, 100_000);
  await until("bytes on the disk", () => arriving(dir) > 0);
  socket.terminate();
  await until("the address to be free", async () => (await fetch(here(server, url), { method: "PUT", body: "x" })).ok);
  expect(readdirSync(join(dir, "storage/tmp"))).toEqual([]);
  expect((await list(server, key)).map((file) => file.sha256)).toEqual([sha256("x")]);
  expect(server.stderr()).not.toContain("signature=");
  await server.kill("SIGTERM");
}, 120_000);

test("killed at any moment under load: acknowledged files are there, and every key has its file", async () => {
  for (let round = 0; round < sweep({ quick: 1, full: 4 }); round++) {
    const { dir, key, server } = await begin();
    const told = new Map<string, Set<string>>(); // path → contents that may be there
    const acknowledged = new Set<string>();
    let done = 0;
    const write = async (client: number, n: number) => {
      const path = `f${client}-${n % 3}`;
      const content = `${client} ${n} ${"x".repeat(n * 1000)}`;
      const before = told.get(path) ?? new Set();
      told.set(path, new Set([...before, sha256(content)])); // until it is acknowledged, either may be there
      const { url } = await ask(server, key, { path });
      const { ok } = await fetch(here(server, url), { method: "PUT", body: content });
      if (!ok) throw new Error("refused");
      told.set(path, new Set([sha256(content)]));
      acknowledged.add(path);
      done++;
    };
    const clients = Array.from({ length: 8 }, async (_, client) => {
      for (let n = 0; n < 1000; n++) await write(client, n);
    });
    const over = Promise.allSettled(clients);
    await until("the load to run", () => done >= 10 + round * 25);
    await server.kill("SIGKILL");
    await over;
    expect(violations(dir)).toEqual([]);
    const again = await startBinary({ dir });
    const files = await list(again, key);
    for (const { path, sha256: hash } of files) {
      expect(told.get(path)?.has(hash)).toBe(true);
      const content = await (await call(again, key, "GET", `/v1/volumes/lab/files/${path}`)).bytes();
      expect(sha256(content)).toBe(hash);
    }
    const paths = new Set(files.map(({ path }) => path));
    expect([...acknowledged].filter((path) => !paths.has(path))).toEqual([]);
    await until("as many keys as files", () => keys(dir).length === files.length);
    await again.kill("SIGTERM");
    expect(violations(dir)).toEqual([]);
  }
}, 120_000);

test("a large file is sent and fetched in little memory, with its length and its ranges", async () => {
  const { key, server } = await begin();
  const size = 400 * 2 ** 20;
  const { url } = await ask(server, key, { path: "big", size_bytes: size });
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) * 1024;
  const before = rss();
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, rss());
  }, 20);
  const chunk = new Uint8Array(2 ** 20).fill(7);
  async function* chunks() {
    for (let sent = 0; sent < size; sent += chunk.length) yield chunk;
  }
  const put = await fetch(here(server, url), { method: "PUT", body: chunks() as unknown as BodyInit });
  expect(put.status).toBe(201);
  const got = await call(server, key, "GET", "/v1/volumes/lab/files/big");
  expect(got.headers.get("content-length")).toBe(String(size));
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const piece of got.body ?? []) hasher.update(piece);
  expect(`"${hasher.digest("hex")}"`).toBe(got.headers.get("etag") as string);
  clearInterval(watch);
  expect((most - before) / 2 ** 20).toBeLessThan(200);
  const at = { authorization: `Bearer ${key}`, range: "bytes=-3" };
  const tail = await fetch(`${server.url}/v1/volumes/lab/files/big`, { headers: at });
  expect([tail.status, (await tail.bytes()).length, tail.headers.get("content-length")]).toEqual([206, 3, "3"]);
  const stale = await fetch(`${server.url}/v1/volumes/lab/files/big`, { headers: { ...at, "if-range": '"other"' } });
  expect(stale.status).toBe(200);
  await stale.body?.cancel();
  const head = await fetch(`${server.url}/v1/volumes/lab/files/big`, { method: "HEAD", headers: at });
  expect(head.headers.get("content-length")).toBe("3");
  await server.kill("SIGTERM");
}, 60_000);
