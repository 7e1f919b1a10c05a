/** S10: one reader of paths. What a target means is the same for the router, the audit log, metrics, limits and errors. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { type RunningServer, startServer } from "../../src/app.ts";
import { stateOf } from "../../src/http/request_state.ts";
import { moveTo, pathOf, queryOf } from "../../src/lib/net/request_target.ts";
import { isOfRoute } from "../../src/lib/route_names.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { createLog } from "../../src/platform/log.ts";
import * as keys from "../../src/resources/access/api_keys/service.ts";
import * as workspaces from "../../src/resources/access/workspaces/service.ts";
import { tempDir, testApp, until } from "../harness.ts";
import { allowLongTurns } from "../long_turns.ts";
import { rawRequest } from "./raw_request.ts";

allowLongTurns("the test sends every spelling of every route in one turn");

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

let served = 0;
const BODY = '{"name":"seen"}';
const post = (target: string, more = "") => {
  const headers = `Host: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${more}`;
  const head = `POST ${target} HTTP/1.1\r\n${headers}Content-Length: ${BODY.length}\r\n\r\n`;
  return rawRequest(server.url, Buffer.from(head + BODY, "latin1"));
};
const read = async (path: string) => {
  const answer = await fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
  return (await answer.json()) as { data: Record<string, unknown>[] };
};
const newestEntry = async () => (await read("/v1/account/audit_log?limit=1")).data[0];
const countOfKeys = async () => (await read("/v1/api_keys?limit=100")).data.length;
const countedBy = async (route: string, status: string) => {
  const text = await (await fetch(`${server.url}/v1/metrics`, { headers: { authorization: `Bearer ${key}` } })).text();
  const line = text
    .split("\n")
    .find(
      (each) =>
        each.startsWith(`verk_http_requests_total{`) &&
        each.includes(`route="${route}",method="POST",status="${status}"`),
    );
  return Number(line?.split(" ").at(-1) ?? 0);
};
const lastLogged = () => JSON.parse(lines.findLast((line) => line.includes('"POST"')) ?? "{}") as { path?: string };

describe("S10: a target that the HTTP parser turns into a path is that path for everything", () => {
  test.each([
    "/v1\\api_keys",
    "http://evil.test/v1/api_keys",
    "http://evil.test/v1\\api_keys",
    "HTTP://u:p@evil.test:99/v1/./api_keys",
    "/v1/./api_keys",
    "/v1/%2e/api_keys",
    "/v1/nothing/../api_keys",
    "/v1/nothing/%2E%2e/api_keys",
    "/v1/api_keys/",
    "/v1/api_keys/?a=/v1/chat/completions",
  ])("%s", async (target) => {
    expect((await post(target)).status).toBe(201);
    served++;
    const path = "/v1/api_keys";
    expect(await newestEntry()).toMatchObject({ method: "POST", route: path });
    expect(lastLogged()).toMatchObject({ path });
  });

  test("and is counted under one route", () =>
    until("the metrics are current", async () => (await countedBy("/v1/api_keys", "2xx")) === served));

  test("the audit log names the resource, also with a final slash", async () => {
    const { id } = JSON.parse((await post("/v1/api_keys")).body) as { id: string };
    for (const target of [`/v1/api_keys/${id}/rotate/`, `/v1/api_keys\\${id}\\rotate`])
      await post(target).then(({ status }) => expect(status).toBeLessThan(500));
    const entries = (await read("/v1/account/audit_log?limit=2")).data;
    expect(entries.map((each) => (each["resource_ids"] as { id?: string }).id)).toEqual([id, id]);
  });

  test("an idempotency key repeats the answer for each spelling of the path", async () => {
    const header = "Idempotency-Key: one-key\r\n";
    const first = await post("/v1/api_keys", header);
    expect(first.status).toBe(201);
    for (const target of ["/v1/api_keys/", "/v1\\api_keys", "/v1/./api_keys"])
      expect(JSON.parse((await post(target, header)).body).id).toBe(JSON.parse(first.body).id);
  });
});

describe("S10: a target that is no route changes nothing", () => {
  test.each([
    ["//v1/api_keys", 404],
    ["/v1//api_keys", 404],
    ["/v1/api_keys//", 404],
    ["/v1/%61pi_keys", 404],
    ["/v1%2fapi_keys", 404],
    ["/v1%5capi_keys", 404],
    ["/v1/api_keys;a=b", 404],
    ["/v1;a/api_keys", 404],
    ["/V1/api_keys", 404],
    ["/v1/api_keys%00", 404],
    ["/v1/api_keys%zz", 404],
    ["/v1/api_keys/%c0%af", 404],
    ["/v1/api_keys/%ed%a0%80", 404],
    ["/v1/api_keys%20", 404],
    ["/v1/api_keys\xff", 404],
    ["/v1/api_keys#x", 400],
    ["/v1/api_keys?a=b#/x", 400],
    ["/v1/api_keys#?a=b", 400],
  ])("%s is answered with %d", async (target, status) => {
    const before = await countOfKeys();
    expect((await post(target)).status).toBe(status);
    expect(await countOfKeys()).toBe(before);
  });

  test.each(["/v1\t/api_keys", "/v1/api_keys\0", "/v1/api keys", "v1/api_keys", "*", "", "ftp://x/v1/api_keys", "?a"])(
    "%j is refused by the HTTP parser, without a body",
    async (target) => {
      const before = await countOfKeys();
      const { status, body } = await post(target);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(body).toBe("");
      expect(await countOfKeys()).toBe(before);
    },
  );
});

/** How a target can be spelled; the router and `pathOf` see all of them. */
const SPELLINGS: readonly ((path: string) => string)[] = [
  (path) => path,
  (path) => `${path}/`,
  (path) => `${path}//`,
  (path) => `/${path}`,
  (path) => `${path}?`,
  (path) => `${path}/?a=/v1/chat/completions`,
  (path) => `${path}?a=b/../c//d?e`,
  (path) => path.replace("/v1/", "/v1//"),
  (path) => `${path};a=b`,
  (path) => `${path}%2f`,
];

test("S10: the router and the reader of paths agree on every route in every spelling", async () => {
  const app = testApp();
  const seen: string[] = [];
  try {
    for (const { method, path } of await app.handle.routes())
      for (const spelled of SPELLINGS) {
        const filled = path.replaceAll(/:\w+/g, "x1").replace("*", "a/b");
        const request = new Request(`http://localhost${spelled(filled)}`, { method });
        await app.handle(request); // without a key: a route refuses it after it was chosen
        const { route } = stateOf(request);
        if (route !== undefined && !isOfRoute(route, pathOf(request)))
          seen.push(`${method} ${spelled(filled)}: ${route}`);
      }
    expect(seen).toEqual([]);
  } finally {
    await app.close().then(app.remove);
  }
}, 120_000);

test("a path and a query are read without building an address", () => {
  const at = (url: string) => ({ url });
  expect(pathOf(at("http://x/v1/jobs?a=/b"))).toBe("/v1/jobs");
  expect(pathOf(at("http://x/"))).toBe("/");
  expect(pathOf(at("http://x"))).toBe("/");
  expect(pathOf(at("http://x/?a"))).toBe("/");
  expect(pathOf(at("http://x//"))).toBe("/");
  expect(queryOf(at("http://x/a?b=%2F&b=c?d")).getAll("b")).toEqual(["/", "c?d"]);
  expect([...queryOf(at("http://x/a"))]).toEqual([]);
  const moved = at("http://x/models/?a=1");
  moveTo(moved, "/v1/models");
  expect(moved.url).toBe("http://x/v1/models?a=1");
});
