/** Programs in a jail with a proxy: real programs, the real relay, and the proxy as the server starts it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { systemClock } from "../../src/platform/clock.ts";
import { silentLog } from "../../src/platform/log.ts";
import { createSupervisor } from "../../src/platform/workers/supervisor.ts";
import { PROXY_URL } from "../../src/sandbox/jail/spec.ts";
import { FromProxy, type ToProxy } from "../../src/workers/protocol_proxy.ts";
import { tempDir, until } from "../harness.ts";
import { confinedIn, HOLDING } from "./confined.ts";
import { openYard, type Yard } from "./jail_kit.ts";

setDefaultTimeout(60_000);
const dir = tempDir();
const supervisor = createSupervisor({
  log: silentLog,
  clock: systemClock,
  socketDir: join(dir, "run"),
  confine: confinedIn(dir),
  program: [process.execPath, resolve(import.meta.dir, "../../src/main.ts")],
  env: { PATH: process.env["PATH"] },
  silence_ms: 60_000,
  stop_grace_ms: 5_000,
  stderr_tail_bytes: 8_192,
});
const reached: string[] = [];
const server = createServer((request, response) => {
  reached.push(`${request.method} ${request.url}`);
  response.end(request.url === "/large" ? "x".repeat(3_000_000) : `hello from ${request.headers.host}`);
});
let yard: Yard;
let port: number;

beforeAll(async () => {
  yard = openYard();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  server.close();
  await supervisor.stopAll("test over");
  for (const each of [dir, yard.dir]) rmSync(each, { recursive: true, force: true });
});

type Options = { allow?: string[]; max_bytes?: number };

async function openProxy({ allow = [], max_bytes = 1e9 }: Options = {}) {
  const messages: FromProxy[] = [];
  const worker = supervisor.spawn<FromProxy, ToProxy>({
    kind: "proxy",
    incoming: FromProxy,
    onMessage: (message) => void messages.push(message),
  });
  worker.send({ type: "serve", network: { allow_private: false, allow }, max_bytes, connect_ms: 5_000 });
  await until("the proxy to listen", () => messages.some(({ type }) => type === "listening"));
  const shell = (script: string) =>
    yard.run(["/bin/sh", "-c", script], {
      proxy: worker.socketPath,
      limits: { memoryBytes: 256 << 20 },
      env: { http_proxy: PROXY_URL, https_proxy: PROXY_URL },
    });
  const totals = async () => {
    await worker.stop("over");
    return messages.findLast(({ type }) => type === "traffic");
  };
  return { worker, shell, totals, refused: () => messages.filter(({ type }) => type === "refused") };
}

const curl = (url: string, more = "") => `curl -s -S -m 20 ${more} ${url} 2>&1`;

test("a program reaches an address that the operator lists, by plain requests and by tunnels, and both are counted", async () => {
  const proxy = await openProxy({ allow: ["127.0.0.1"] });
  const url = `http://127.0.0.1:${port}`;
  const { stdout } = await proxy.shell(`${curl(`${url}/plain`)}; echo; ${curl(`${url}/tunnel`, "-p")}`);
  expect(stdout).toBe(`hello from 127.0.0.1:${port}\nhello from 127.0.0.1:${port}`);
  expect(reached.splice(0)).toEqual(["GET /plain", "GET /tunnel"]);
  const totals = await proxy.totals();
  expect(totals).toMatchObject({ connections: 2, refused: 0 });
  expect(totals && "sent_bytes" in totals && totals.sent_bytes > 100 && totals.received_bytes > 200).toBe(true);
});

test("loopback, private and metadata addresses are refused, by name and by number, and reported once each", async () => {
  const proxy = await openProxy();
  const numbers = ["10.0.0.1:80", "192.168.1.1:80", "169.254.169.254:80", "[::1]:80"];
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`, ...numbers];
  const tries = hosts.flatMap((host) => [curl(`http://${host}/`), curl(`http://${host}/`, "-p -o /dev/null")]);
  const { stdout } = await proxy.shell(tries.join("; echo; "));
  expect(stdout.match(/The operator can/g)).toHaveLength(hosts.length); // the plain ones show the answer
  expect(stdout.match(/403/g)).toHaveLength(hosts.length); // curl shows the status alone for a tunnel
  expect(reached).toEqual([]);
  const names = proxy.refused().map((message) => ("host" in message ? message.host : ""));
  expect(names.sort()).toEqual([...hosts].sort());
  expect(await proxy.totals()).toMatchObject({ connections: 0, refused: 2 * hosts.length });
});

test("around the proxy there is no network: not by address, not by name", async () => {
  const proxy = await openProxy({ allow: ["127.0.0.1"] });
  const direct = `curl -s -m 5 --noproxy '*' http://127.0.0.1:${port}/ || echo no loopback of the host`;
  const outside = "curl -s -m 5 --noproxy '*' http://192.0.2.1/ || echo no route";
  const names = "getent hosts example.org || echo no names";
  const { stdout } = await proxy.shell(`${direct}; ${outside}; ${names}`);
  expect(stdout).toBe("no loopback of the host\nno route\nno names\n");
  expect(reached).toEqual([]);
});

test("a run that has used up its traffic is cut off, and gets no further connection", async () => {
  const proxy = await openProxy({ allow: ["127.0.0.1"], max_bytes: 1_000_000 });
  const url = `http://127.0.0.1:${port}`;
  const { stdout } = await proxy.shell(`${curl(`${url}/large`, "-o large")}; stat -c %s large; ${curl(`${url}/more`)}`);
  const bytes = Number(/^(\d+)$/m.exec(stdout)?.[1]);
  expect(bytes).toBeLessThan(1_000_000);
  expect(stdout).toContain("used up its traffic (custom_jobs.network_mib)");
  expect(reached.splice(0)).toEqual(["GET /large"]);
});

test("many connections at a time pass, and wait for each other", async () => {
  const proxy = await openProxy({ allow: ["127.0.0.1"] });
  const one = `curl -s -m 50 http://127.0.0.1:${port}/$i >> all`;
  const { stdout } = await proxy.shell(`for i in $(seq 16); do ${one} & done; wait; grep -o hello all | wc -l`);
  expect(stdout.trim()).toBe("16");
  reached.splice(0);
});

test.skipIf(!HOLDING.includes("seccomp"))(
  "the proxy can open no unix socket once it listens, in no thread",
  async () => {
    const { worker } = await openProxy();
    for (const thread of readdirSync(`/proc/${worker.pid}/task`)) {
      const status = readFileSync(`/proc/${worker.pid}/task/${thread}/status`, "utf8");
      expect(Number(/^Seccomp_filters:\s+(\d+)$/m.exec(status)?.[1])).toBe(2); // its own and that of its kind
    }
  },
);

test("a command that kills the relay loses its network, and nothing else", async () => {
  const proxy = await openProxy({ allow: ["127.0.0.1"] });
  const { stdout, reason } = await proxy.shell(`kill -9 -1; ${curl(`http://127.0.0.1:${port}/`)}; echo still here`);
  expect(reason).toBe("exited");
  expect(stdout).toContain("still here");
  expect(stdout).not.toContain("hello");
});
