// tier: all (networks of the detectors)
/** `detect.port`: detection alone on a second port, beside the one that has both interfaces. */
import { afterEach, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { makeKey, program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const dirs: string[] = [];
const fresh = () => {
  dirs.push(tempDir());
  return dirs.at(-1) as string;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

async function startBoth() {
  const dir = fresh();
  const { key } = await makeKey(dir);
  const server = await startBinary({ dir, env: { VERK_DETECT__PORT: "0" } });
  const second = await until(
    "the second address",
    () => /Detection API listening on (http:[^\s"]+)/.exec(server.stderr())?.[1],
  );
  const headers = { "x-api-key": key, authorization: `Bearer ${key}`, "content-type": "application/json" };
  const get = (url: string, more: RequestInit = {}) => fetch(url, { headers, ...more });
  return { server, second, get };
}

test("both ports have detection and health, only the first has the rest", async () => {
  const { server, second, get } = await startBoth();
  expect(second).not.toBe(server.url);
  for (const url of [server.url, second]) {
    expect((await get(`${url}/healthz`)).status).toBe(200);
    expect((await get(`${url}/readyz`)).status).toBe(200);
    expect(await (await get(`${url}/v1/config`)).json()).toMatchObject({ plan: "enterprise" });
    expect((await get(`${url}/v1/config`, { headers: {} })).status).toBe(401);
  }
  const hidden = ["/v1/datasets", "/v1/account", "/v1/metrics", "/v1/public/runs", "/docs", "/openapi.json", "/setup"];
  for (const path of hidden) {
    expect((await get(server.url + path)).status).not.toBe(404);
    const answer = await get(second + path);
    expect(answer.status).toBe(404);
    expect(await answer.json()).toEqual({ error: `No route GET ${path} on this port`, code: "NOT_FOUND" });
    expect(answer.headers.get("x-request-id")).toBeTruthy();
  }
  const chat = await get(`${second}/v1/chat/completions`, { method: "POST", body: "{}" });
  expect([chat.status, await chat.json()]).toEqual([404, expect.objectContaining({ code: "NOT_FOUND" })]);
  await server.kill("SIGTERM");
});

test("a call by the second port is in the audit log with its address, and a stop closes both", async () => {
  const { server, second, get } = await startBoth();
  const changed = await get(`${second}/v1/config`, { method: "PUT", body: '{"defaultThreshold":0.7}' });
  expect(changed.status).toBe(200);
  const { data } = (await (await get(`${server.url}/v1/account/audit_log`)).json()) as { data: object[] };
  expect(data[0]).toMatchObject({ method: "PUT", address: "127.0.0.1", status: 200 });
  expect(await server.kill("SIGTERM")).toMatchObject({ code: 0, signal: null });
  for (const url of [server.url, second]) expect(await get(`${url}/healthz`).catch(() => "closed")).toBe("closed");
});

test("a taken port stops the start, and the error names the port and the setting", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const { port } = taken;
  const dir = fresh();
  const env = { HOME: dir, PATH: process.env["PATH"] ?? "", VERK_DETECT__PORT: String(port) };
  const started = [...program(), "serve", "--data", dir, "--listen", "127.0.0.1:0"];
  const child = Bun.spawn(started, { env, stderr: "pipe" });
  const told = await new Response(child.stderr).text();
  await taken.stop(true);
  expect(told).toContain(`127.0.0.1:${port} is in use by another program: stop it or choose another with detect.port`);
  expect(await child.exited).toBe(2);
});
