// tier: all (whole paths on the executable)
/** Many silent connections against a server with few file descriptors. */
import { afterEach, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { until } from "../harness.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of cleanups.splice(0).reverse()) await each();
});

/** A connection that stays open between requests, as a raw socket: it is there before the others come. */
async function connect(url: string) {
  const { hostname, port } = new URL(url);
  let [text, isOpen] = ["", true];
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data(_socket, chunk) {
        text += chunk.toString();
      },
      close() {
        isOpen = false;
      },
    },
  });
  cleanups.push(() => socket.end());
  return {
    socket,
    isOpen: () => isOpen,
    /** The answer to one request, with its status line. */
    async request(head: string, body = ""): Promise<string> {
      text = "";
      socket.write(`${head}\r\nHost: ${hostname}:${port}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
      return await until("an answer", () => {
        const [headers = "", content] = text.split("\r\n\r\n");
        const length = Number(/content-length: (\d+)/i.exec(headers)?.[1] ?? Number.POSITIVE_INFINITY);
        return content !== undefined && Buffer.byteLength(content) >= length ? text : undefined;
      });
    },
  };
}

test.each([256, 1024, 4096])(
  "R2: with %i descriptors, silent connections are refused; the server lives, and its deployment answers",
  async (limit) => {
    const prefix = ["bash", "-c", `ulimit -n ${limit} && exec "$@"`, "limited"];
    const server = await startBinary({ prefix });
    cleanups.push(() => server.kill("SIGTERM"));
    const made = await server.call("POST", "/v1/deployments", { name: "demo", model: "verk-tiny", min_replicas: 1 });
    expect(made.status).toBe(201);
    await until("the deployment to serve", async () => {
      const { body } = await server.call("GET", `/v1/deployments/${made.body.id}`);
      return body.status === "serving";
    });
    const auth = `Authorization: Bearer ${await server.apiKey()}`;
    const admin = await makeKey(server.dir, "--scope", "admin");
    const early = await connect(server.url);
    expect(await early.request("GET /healthz HTTP/1.1")).toStartWith("HTTP/1.1 200");

    const silent = await Promise.all(
      Array.from({ length: limit + 200 }, () => connect(server.url).catch(() => undefined)),
    );
    const used = () => readdirSync(`/proc/${server.pid}/fd`).length;
    await until("the last connection", () => used() > limit - 4 || silent.some((each) => !each?.isOpen()));
    expect(used()).toBeLessThan(limit - 32);
    // The first request to a worker: the server needs descriptors of its own for it.
    const chat = JSON.stringify({ model: "demo", max_tokens: 4, messages: [{ role: "user", content: "hi" }] });
    const json = "Content-Type: application/json";
    expect(await early.request(`POST /v1/chat/completions HTTP/1.1\r\n${auth}\r\n${json}`, chat)).toStartWith(
      "HTTP/1.1 200",
    );
    const metrics = await early.request(`GET /metrics HTTP/1.1\r\nAuthorization: Bearer ${admin.key}`);
    expect(Number(/^verk_connections_refused_total (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(100);
    expect(metrics).toMatch(new RegExp(`^process_max_fds ${limit}$`, "m"));
    const { out } = await server.verk(["doctor", "--json"]);
    const checks = JSON.parse(out).checks as { check: string; detail: string }[];
    expect(checks.find(({ check }) => check === "open files")?.detail).toContain(`limit ${limit} (hard ${limit})`);

    for (const each of silent) each?.socket.end();
    await until("a new connection", async () => (await fetch(`${server.url}/healthz`)).ok);
    expect(server.child.exitCode).toBeNull();
    expect(server.stderr()).not.toContain("EMFILE");
    expect(server.stderr().includes("Warning: open files: limit")).toBe(limit < 4096);
  },
  180_000,
);
