import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { Route } from "../../src/http/route_groups.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { type Answer, type TestApp, tempDir, testApp } from "../harness.ts";
import { SEED, seedFor } from "../sweep.ts";
import { violations } from "./invariants.ts";

const REQUESTS = 3000; // each status is to be seen among all the routes

let app: TestApp;
let routes: readonly Route[];
beforeAll(async () => {
  app = testApp({ flags: { "http.max_body_bytes": 65_536 } });
  routes = await app.handle.routes();
});
afterAll(() => app.close().then(app.remove));

const FIRST = seedFor("malformed requests");
let seed = FIRST;
/** Mixes all bits: a plain congruential generator repeats its low ones, and whole kinds of request with them. */
const random = () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
};
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
const times = (n: number, text: string) => text.repeat(Math.floor(random() * n) + 1);

const ODD = [
  "",
  " ",
  "\u0000",
  "\ud800",
  "\udfff\ud800",
  "\u202e\u2066",
  "\ufeff",
  "e\u0301".repeat(200),
  "😀".repeat(300),
  "ÿ",
  "\u2028\u2029",
  "'; DROP TABLE workspaces;--",
  "../../etc/passwd",
  "%00",
  "__proto__",
  "constructor",
  "NaN",
  "-0",
  "1e999",
  "\\u0000",
  "\r\nx: y",
];
const scalar = (): unknown =>
  pick([null, true, false, 0, -1, 1.5, 1e308, -1e-308, 2 ** 53, ...ODD, times(70_000, "x"), times(300, "é")]);
function value(depth = 0): unknown {
  const kind = random();
  if (depth > 5 || kind < 0.6) return scalar();
  if (kind < 0.8) return Array.from({ length: Math.floor(random() * 5) }, () => value(depth + 1));
  return Object.fromEntries(
    Array.from({ length: Math.floor(random() * 5) }, () => [String(scalar()).slice(0, 40), value(depth + 1)]),
  );
}
const FIELDS = [
  "name",
  "metadata",
  "scopes",
  "expires_at",
  "monthly_budget_usd",
  "value",
  "scope_host",
  "public_key",
  "private_key",
  "token",
  "provider",
  "image",
  "models",
  "images",
  "url",
  "webhookUrl",
  "__proto__",
  "toString",
];
const object = () =>
  Object.fromEntries(Array.from({ length: 1 + Math.floor(random() * 5) }, () => [pick(FIELDS), value()]));
const nest = (open: string, close: string) => {
  const n = 1 + Math.floor(random() * 30_000);
  return open.repeat(n) + pick(["", close.repeat(n), close.repeat(n - 1)]);
};
const TYPES = [
  "application/json",
  "application/json; charset=utf-16",
  "text/plain",
  "multipart/form-data",
  "multipart/form-data; boundary=x",
  "application/x-www-form-urlencoded",
  "application/xml",
  "",
  "/",
  "json",
  "application/vnd.api+json",
];

/** Something no route can accept: wrong as JSON, as a type, in size, depth or encoding. */
function body(): BodyInit {
  switch (Math.floor(random() * 9)) {
    case 0:
      return nest("[", "]");
    case 1:
      return nest('{"name":', "}");
    case 2:
      return JSON.stringify(object()).slice(0, -1 - Math.floor(random() * 5));
    case 3:
      return crypto.getRandomValues(new Uint8Array(1 + Math.floor(random() * 500)));
    case 4:
      return JSON.stringify(value());
    case 5:
      return `{"name":${pick(["01", "+1", ".5", "'x'", "undefined", "NaN", '"\\x"', '"\t"', '"a\nb"'])}}`;
    case 6:
      return JSON.stringify({ name: times(100_000, "x") });
    case 7:
      return `${JSON.stringify({ name: "x", metadata: Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`k${i}`, "v"])) })}${pick(["", "}", ",", "\u0000"])}`;
    default:
      return JSON.stringify(object());
  }
}

const path = () => {
  const route = pick(routes).path.replaceAll(/:\w+/g, () =>
    encodeURIComponent(pick([...ODD, "A", "x".repeat(300)]).toWellFormed()),
  );
  const query =
    random() < 0.4
      ? `?${pick(["limit", "after", "types", "stream", "limit=1&limit", "%ZZ", "a[b]"])}=${encodeURIComponent(String(scalar()).toWellFormed().slice(0, 2000))}`
      : "";
  return pick([route + query, route + query, `${route}/${query}`, `${route}/%E0%A4`, `//${route}`]) || "/";
};

type Target = {
  keys: readonly (string | null)[];
  send: (
    method: string,
    path: string,
    options: { key: string | null; headers: Record<string, string>; raw?: BodyInit },
  ) => Promise<Answer>;
};

async function storm({ keys, send }: Target) {
  seed = FIRST;
  const seen = new Map<number, number>();
  for (let i = 0; i < REQUESTS; i++) {
    const from = seed;
    const method = pick(["POST", "POST", "POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS"]);
    const key = pick([...keys, null, "vk_x", "\u00ff"]);
    const headers = { "content-type": pick(TYPES), ...(random() < 0.1 ? { "idempotency-key": times(400, "k") } : {}) };
    const at = path().replace("stream=1", "stream=2"); // a stream is a right answer without an end
    const options = { key, headers, ...(method === "GET" ? {} : { raw: body() }) };
    const answer = await send(method, at, options).catch((error) => {
      throw new Error(`VERK_TEST_SEED=${SEED}, state ${from}: ${method} ${at.slice(0, 200)}`, { cause: error });
    });
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
    if (answer.status >= 500)
      throw new Error(
        `VERK_TEST_SEED=${SEED}, state ${from}: ${method} ${at.slice(0, 200)} → ${JSON.stringify(answer.body)}`,
      );
    if (answer.status >= 400) expect((answer.body.error.message ?? answer.body.error).length).toBeGreaterThan(0);
  }
  for (const status of [400, 401, 404, 405, 413, 415, 422])
    expect([status, (seen.get(status) ?? 0) > 0]).toEqual([status, true]);
}

test(`${REQUESTS} random malformed requests: every failure is a 4xx in the envelope, none is a 500`, async () => {
  await storm({
    keys: [app.keyA, app.adminKey, app.adminKey],
    send: (method, at, options) => app.call(method, at, undefined, options),
  });
}, 60_000);

test("the same requests over a socket to the executable, which still works afterwards", async () => {
  const dir = tempDir();
  const admin = await makeKey(dir, "--scope", "admin");
  const narrow = await makeKey(dir);
  const env = { VERK_HTTP__MAX_BODY_BYTES: "65536", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };
  const server = await startBinary({ dir, env });
  await storm({
    keys: [narrow.key, admin.key, admin.key],
    async send(method, at, { key, headers, raw }) {
      const response = await fetch(server.url + at, {
        method,
        headers: { ...headers, ...(key === null ? {} : { authorization: `Bearer ${key}`, "x-api-key": key }) },
        ...(raw === undefined ? {} : { body: raw }),
      });
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.startsWith("application/json"); // an export is lines of JSON
      return { status: response.status, body: isJson ? JSON.parse(text) : text, headers: response.headers };
    },
  });
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  expect((await server.kill("SIGTERM")).code).toBe(0);
  expect(violations(dir)).toEqual([]);
  rmSync(dir, { recursive: true, force: true });
}, 60_000);
