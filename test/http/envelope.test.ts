import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { toAppError } from "../../src/http/answer/errors.ts";
import { StorageError } from "../../src/platform/files.ts";
import { type TestApp, testApp } from "../harness.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp({ flags: { "http.max_body_bytes": 2048 } });
});
afterAll(() => app.close().then(app.remove));

const post = (raw: BodyInit, headers: Record<string, string> = { "content-type": "application/json" }) =>
  app.call("POST", "/v1/workspaces", undefined, { key: app.adminKey, raw, headers });

describe("every error has the envelope and a request id", () => {
  test.each([
    ["an unknown route", "GET", "/v1/nothing", 404, "not_found_error", "route_not_found"],
    [
      "a route that does not take the method",
      "PUT",
      "/v1/workspaces",
      405,
      "invalid_request_error",
      "method_not_allowed",
    ],
    ["a path that is not UTF-8", "GET", "/v1/workspaces/%E0%A4%A", 404, "not_found_error", "route_not_found"],
    ["a path with a NUL", "GET", "/v1/workspaces/%00", 404, "not_found_error", "route_not_found"],
    ["an unknown id", "GET", "/v1/workspaces/ws_none", 404, "not_found_error", "resource_not_found"],
    ["a limit out of range", "GET", "/v1/workspaces?limit=101", 422, "validation_error", "schema"],
    ["a limit of zero", "GET", "/v1/workspaces?limit=0", 422, "validation_error", "schema"],
    ["a limit that is no number", "GET", "/v1/workspaces?limit=many", 422, "validation_error", "schema"],
    ["an unknown cursor", "GET", "/v1/workspaces?after=ws_none", 400, "invalid_request_error", "invalid_cursor"],
    ["a cursor with a comma", "GET", "/v1/workspaces?after=a,b", 400, "invalid_request_error", "invalid_cursor"],
    ["a cursor in brackets", "GET", "/v1/workspaces?after=%5B1%5D", 400, "invalid_request_error", "invalid_cursor"],
    ["a limit in brackets", "GET", "/v1/workspaces?limit=%5B5%5D", 422, "validation_error", "schema"],
    ["a limit given twice", "GET", "/v1/workspaces?limit=5&limit=6", 422, "validation_error", "schema"],
  ])("%s", async (_name, method, path, status, type, code) => {
    const answer = await app.call(method, path, undefined, { key: app.adminKey });
    expect(answer).toMatchObject({ status, body: { error: { type, code } } });
    expect(answer.headers.get("x-request-id")).toBeTruthy();
  });

  test("P8 an unknown path under /v1 needs a key like every other: 401 without a valid one, 404 with it", async () => {
    for (const key of [null, "vk_wrong"]) {
      expect((await app.call("GET", "/v1/nothing", undefined, { key })).status).toBe(401);
      expect((await app.call("POST", "/v1/detect/nothing", {}, { key })).status).toBe(401);
      expect((await app.call("POST", "/api/nothing", {}, { key })).body.code).toEndWith("_API_KEY");
    }
    expect((await app.call("GET", "/v1/nothing")).body.error.code).toBe("route_not_found");
    expect((await app.call("POST", "/api/nothing", {})).body.code).toBe("NOT_FOUND");
    for (const path of ["/nothing", "/v2/nothing", "/v1"])
      expect((await app.call("GET", path, undefined, { key: null })).status).toBe(404);
    for (const path of ["/v1/public/runs", "/healthz", "/readyz", "/version", "/docs", "/setup", "/openapi.json"])
      expect((await app.call("GET", path, undefined, { key: null })).status).toBe(200);
  });

  test("the bad parameter is named as the caller wrote it", async () => {
    const { body } = await app.call("GET", "/v1/workspaces?limit=500", undefined, { key: app.adminKey });
    expect(body.error.param).toBe("limit");
  });

  test("a 405 lists the allowed methods", async () => {
    const answer = await app.call("PUT", "/v1/workspaces/ws_x", undefined, { key: app.adminKey });
    expect(answer.headers.get("allow")).toBe("DELETE, GET, PATCH");
  });

  test.each([
    ["in a handler", "GET", "/v1/events", "events"],
    ["while the caller of a route with a body is admitted", "POST", "/v1/workspaces", "api_keys"],
  ])(
    "an unexpected exception %s is a 500 without internals, logged once under the same id",
    async (_where, method, path, table) => {
      const broken = testApp();
      broken.ctx.db.$client.run("PRAGMA foreign_keys = OFF");
      broken.ctx.db.$client.run(`DROP TABLE ${table}`);
      const answer = await broken.call(method, path, method === "GET" ? undefined : { name: "x" }, {
        headers: { "x-request-id": "trace-1" },
      });
      expect(answer).toMatchObject({
        status: 500,
        body: { error: { type: "api_error", code: "internal", param: null } },
      });
      expect(JSON.stringify(answer.body)).not.toContain("no such table");
      expect(answer.headers.get("x-request-id")).toBe("trace-1");
      const lines = broken.log.filter((line) => line.includes('"error"') && line.includes("trace-1"));
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain("no such table");
      await broken.close().then(broken.remove);
    },
  );
});

test("a disk error says what to do, but not where the server keeps its files", () => {
  const trouble = new StorageError(
    "/srv/verk/storage/x",
    "write",
    Object.assign(new Error("ENOSPC"), { code: "ENOSPC" }),
  );
  const shown = toAppError(app.ctx, trouble, new Request("http://localhost/"));
  expect([shown.status, shown.message]).toEqual([503, expect.stringContaining("the disk is full")]);
  expect(shown.message).not.toContain("/srv");
  expect(app.log.at(-1)).toContain("/srv/verk/storage/x");
});

describe("a body that cannot be read", () => {
  test.each([
    ["malformed JSON", "{", 400, "invalid_json"],
    ["an empty body", "", 400, "invalid_json"],
    ["bytes that are not UTF-8", new Uint8Array([0x22, 0xff, 0x22]), 400, "invalid_json"],
    ["nesting without end", "[".repeat(1000), 400, "invalid_json"],
    ["deep but balanced nesting", `{"name":${"[".repeat(500)}${"]".repeat(500)}}`, 400, "invalid_json"],
    ["null", "null", 422, "schema"],
    ["an array", "[]", 422, "schema"],
    ["a body over the limit", JSON.stringify({ name: "x".repeat(3000) }), 413, "payload_too_large"],
  ] as const)("%s", async (_name, raw, status, code) => {
    expect(await post(raw)).toMatchObject({ status, body: { error: { code } } });
  });

  test("a body over the limit without a stated length", async () => {
    const chunk = new TextEncoder().encode(" ".repeat(1000));
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(chunk) });
    expect(await post(endless)).toMatchObject({ status: 413, body: { error: { code: "payload_too_large" } } });
  });

  test("another media type is refused by name; a missing one is read as JSON", async () => {
    expect(await post("name=x", { "content-type": "application/x-www-form-urlencoded" })).toMatchObject({
      status: 415,
      body: { error: { message: expect.stringContaining("application/json") } },
    });
    expect((await post(new TextEncoder().encode('{"name":"bare"}'), {})).status).toBe(201);
  });

  test("only the forms for strangers read the body of a request without a key", async () => {
    const all = await app.handle.routes();
    const routes = all.filter(({ method }) => ["POST", "PUT", "PATCH", "DELETE"].includes(method));
    const readers: string[] = [];
    for (const { method, path } of routes) {
      let pulled = 0;
      const pull = (controller: ReadableStreamDefaultController) => {
        pulled++;
        if (pulled < 10) controller.enqueue(new TextEncoder().encode("{"));
        else controller.close();
      };
      const body = new ReadableStream({ pull }, { highWaterMark: 0 });
      const headers = { "content-type": "application/json" };
      const url = `http://localhost${path.replaceAll(/:\w+|\*/g, "x")}`;
      const { status } = await app.handle(new Request(url, { method, body, headers }));
      expect([path, status >= 400 && status < 500]).toEqual([path, true]);
      if (pulled > 1) readers.push(`${method} ${path}`);
    }
    expect(routes.length).toBeGreaterThan(150);
    expect(readers).toEqual(["POST /setup", "POST /v1/logins", "POST /v1/logins/invitations"]);
  });
});

test("HEAD answers like GET without a body", async () => {
  const answer = await app.call("HEAD", "/v1/workspaces", undefined, { key: app.adminKey });
  expect(answer.status).toBe(200);
});

test("a host of one letter does not change which route a path means", async () => {
  const from = async (path: string) => (await app.handle(new Request(`http://x${path}`))).status;
  expect(await from("/healthz")).toBe(200);
  expect(await from("/anything/healthz")).toBe(404);
  expect(await from("/v1/account?a=/b")).toBe(401);
});

test("a request id of the client is kept only when it is harmless", async () => {
  const withId = (id: string) => app.call("GET", "/healthz", undefined, { headers: { "x-request-id": id } });
  expect((await withId("abc-1.2")).headers.get("x-request-id")).toBe("abc-1.2");
  expect((await withId("a b{}")).headers.get("x-request-id")).not.toBe("a b{}");
});

describe("CORS", () => {
  const preflight = { origin: "https://ui.example", "access-control-request-method": "POST" };
  test("is off by default", async () => {
    const answer = await app.call("GET", "/healthz", undefined, { headers: preflight });
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
  });
  test("lets in the origins that the operator names, and no other", async () => {
    const open = testApp({ flags: { "http.cors_origins": ["https://ui.example"] } });
    const from = (origin: string, method = "GET") =>
      open.call(method, "/healthz", undefined, { headers: { ...preflight, origin } });
    expect((await from("https://ui.example")).headers.get("access-control-allow-origin")).toBe("https://ui.example");
    const allowed = await from("https://ui.example", "OPTIONS");
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get("access-control-allow-headers")).toContain("last-event-id"); // to take up a stream again
    const answered = await from("https://ui.example");
    for (const name of ["x-request-id", "retry-after", "idempotent-replayed"])
      expect(answered.headers.get("access-control-expose-headers")).toContain(name);
    expect((await from("https://evil.example")).headers.get("access-control-allow-origin")).toBeNull();
    await open.close().then(open.remove);
  });
  test("allows the headers by which SDKs describe themselves, and no other unknown ones", async () => {
    const open = testApp({ flags: { "http.cors_origins": ["*"] } });
    const wanted =
      "X-Stainless-OS, x-stainless-helper-method, anthropic-dangerous-direct-browser-access, openai-project";
    const headers = { ...preflight, "access-control-request-headers": `${wanted}, x-forwarded-for, x-evil` };
    const answer = await open.call("OPTIONS", "/v1/messages", undefined, { headers, key: null });
    const allowed = answer.headers.get("access-control-allow-headers")?.split(", ");
    expect(allowed).toEqual(expect.arrayContaining(wanted.toLowerCase().split(", ")));
    expect(allowed).toEqual(expect.arrayContaining(["authorization", "x-api-key", "content-type"]));
    expect(allowed?.filter((name) => name === "x-evil" || name.startsWith("x-forwarded"))).toEqual([]);
    await open.close().then(open.remove);
  });
});
