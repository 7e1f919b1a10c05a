/** M1, L7: what a Host header can do to a path, to the audit log and to links. Over raw sockets: clients tidy it up. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { hostname } from "node:os";
import { type RunningServer, startServer } from "../../src/app.ts";
import { isOwnName } from "../../src/http/host.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { createLog } from "../../src/platform/log.ts";
import * as keys from "../../src/resources/access/api_keys/service.ts";
import * as workspaces from "../../src/resources/access/workspaces/service.ts";
import { tempDir } from "../harness.ts";
import { rawRequest } from "./raw_request.ts";

const dir = tempDir();
const lines: string[] = [];
let server: RunningServer;
let key = "";
beforeAll(async () => {
  const flags = { data_dir: dir, "http.listen": "127.0.0.1:0" };
  const log = createLog({ level: "debug", write: (line) => void lines.push(line) });
  server = await startServer(loadConfig({ env: { HOME: dir }, flags }), { log });
  const { id } = workspaces.create(server.ctx, { name: "alpha", metadata: {} });
  const input = { name: "test", scopes: ["*" as const], expires_at: null, monthly_budget_usd: null, metadata: {} };
  key = keys.create(server.ctx, id, input).key;
});
afterAll(async () => {
  await server.stop("test over");
  rmSync(dir, { recursive: true, force: true });
});

/** One request as it is written, and its answer. */
function raw(head: string, body = "") {
  const more = `Authorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  return rawRequest(server.url, `${head}\r\n${more}\r\n\r\n${body}`);
}
const call = (method: string, path: string, body?: object) =>
  fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
  }).then(async (answer) => ({ status: answer.status, body: (await answer.json()) as any }));

const BAD = ["x/", "x?", "x#y", "a@b", "", "a b", "a\\b", "a%41", "[::1", "a:b", "a,b", "[]", "ü", "x/?//b"];

describe("M1: a Host header that is no host", () => {
  test.each(BAD)("%j is answered with 400 and a request id on every path", async (host) => {
    for (const path of ["/v1/api_keys", "/xxxxxx/v1/api_keys?z=//b/v1/chat/completions", "/healthz"]) {
      const { status, headers, body } = await raw(`POST ${path} HTTP/1.1\r\nHost: ${host}`, '{"name":"stealth"}');
      expect([path, status]).toEqual([path, 400]);
      expect(headers.toLowerCase()).toContain("x-request-id: ");
      expect(body).toContain("Send a Host header");
    }
  });

  test("two Host headers, or none, are refused too", async () => {
    expect((await raw("POST /v1/api_keys HTTP/1.1\r\nHost: a\r\nHost: b", '{"name":"stealth"}')).status).toBe(400);
    expect((await raw("POST /v1/api_keys HTTP/1.0", '{"name":"stealth"}')).status).toBe(400);
  });

  test("cannot make a key without an entry in the audit log", async () => {
    const before = (await call("GET", "/v1/api_keys?limit=100")).body.data.length;
    await raw("POST /xxxxxx/v1/api_keys?z=//b/v1/chat/completions HTTP/1.1\r\nHost: x/", '{"name":"stealth"}');
    expect((await call("GET", "/v1/api_keys?limit=100")).body.data).toHaveLength(before);
  });

  test("causes no 500 when an address is signed", async () => {
    expect((await call("POST", "/v1/volumes", { name: "m1" })).status).toBe(201);
    const { status } = await raw("POST /v1/volumes/m1/download-url HTTP/1.1\r\nHost: x/", '{"path":"a"}');
    expect(status).toBe(400);
    expect(lines.filter((line) => line.includes("request failed"))).toEqual([]);
  });

  test.each(["x", "example.com:99", "127.0.0.1", "[::1]:80", "a_b.c", "UPPER.Case"])("%s is a host", async (host) => {
    expect((await raw(`GET /healthz HTTP/1.1\r\nHost: ${host}`)).status).toBe(200);
  });
});

describe("M1: the audit log has the route that was called", () => {
  const last = async () => (await call("GET", "/v1/account/audit_log?limit=1")).body.data[0];

  test.each(["?z=//b/v1/chat/completions", "?/v1/chat/completions", "?z=http://x/v1/detect"])(
    "a query %s does not change the route",
    async (query) => {
      expect((await raw(`POST /v1/api_keys${query} HTTP/1.1\r\nHost: x`, '{"name":"seen"}')).status).toBe(201);
      expect(await last()).toMatchObject({ method: "POST", route: "/v1/api_keys" });
    },
  );

  test("an absolute target counts as its path", async () => {
    await raw("POST http://evil/v1/api_keys HTTP/1.1\r\nHost: x", '{"name":"seen"}');
    expect(await last()).toMatchObject({ method: "POST", route: "/v1/api_keys" });
  });

  test("only the route decides which use is left out", async () => {
    const before = await last();
    await raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x", '{"model":"none","messages":[]}');
    expect(await last()).toEqual(before);
  });
});

describe("L7: signed addresses", () => {
  const signedFor = async (host: string) => {
    const head = `POST /v1/volumes/l7/upload-url HTTP/1.1\r\nHost: ${host}`;
    return new URL(JSON.parse((await raw(head, '{"path":"a.txt"}')).body).url).host;
  };

  test("never use a host name that the caller invented", async () => {
    await call("POST", "/v1/volumes", { name: "l7" });
    const { port } = new URL(server.url);
    for (const host of ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"])
      expect([host, await signedFor(host)]).toEqual([host, `127.0.0.1:${port}`]);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, "10.1.2.3:7070", "[::1]:7070", `${hostname()}:7070`])
      expect(await signedFor(host)).toBe(host.toLowerCase());
  });

  test("use this server's own names", () => {
    for (const name of ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "verk.lan", "Verk.LAN"])
      expect([name, isOwnName(name, ["verk.lan", ""])]).toEqual([name, true]);
    for (const name of ["", "evil", "verk.lan.evil", "xlocalhost", "1.2.3"])
      expect([name, isOwnName(name, ["verk.lan", ""])]).toEqual([name, false]);
  });
});
