/** Requests that no route takes: a page of the dashboard, 401, 404 or 405, on the port for everything and on that of detection. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHandler, type Handler } from "../../src/http/server.ts";
import { loadBundle } from "../../src/resources/server/dashboard/bundle.ts";
import { DETECTION_PORT } from "../../src/routes.ts";
import { type TestApp, testApp } from "../harness.ts";
import { rawRequest } from "./raw_request.ts";

let app: TestApp;
let detection: Handler;
let page: string;
beforeAll(async () => {
  app = testApp();
  detection = createHandler(app.ctx, DETECTION_PORT);
  page = (await loadBundle()).index;
});
afterAll(() => app.close().then(app.remove));

type Caller = "guest" | "browser" | "stranger" | "owner";
function headersOf(caller: Caller): Record<string, string> {
  if (caller === "guest") return {};
  if (caller === "browser") return { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
  const key = caller === "owner" ? app.keyA : "vk_wrong";
  return { authorization: `Bearer ${key}`, "x-api-key": key };
}

async function ask(handle: Handler, caller: Caller, method: string, path: string) {
  const body = method === "POST" ? { body: "no JSON" } : {};
  const request = new Request(`http://localhost${path}`, { method, headers: headersOf(caller), ...body });
  const response = await handle(request);
  const { "x-request-id": id, ...headers } = Object.fromEntries(response.headers);
  expect(id).toBeTruthy();
  const text = await response.text();
  const isJson = headers["content-type"]?.startsWith("application/json");
  return { status: response.status, headers, body: isJson ? (JSON.parse(text) as unknown) : text };
}

const JSON_HEADERS = { "content-type": "application/json;charset=utf-8", "x-content-type-options": "nosniff" };
const PAGE_HEADERS = {
  "cache-control": "no-cache",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "content-type": "text/html; charset=utf-8",
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};
const envelope = (type: string, code: string, message: string, param: string | null = null) => ({
  error: { type, code, message, param },
});
const json = (status: number, body: object, headers: Record<string, string> = {}) => ({
  status,
  headers: { ...JSON_HEADERS, ...headers },
  body,
});

const MISSING = "Send an API key: Authorization: Bearer vk_… (create one with `verk keys create`)";
const MISSING_OF_SERVICE = "Send an API key in the header X-API-Key (make one with `verk keys create`)";
const missing = json(401, envelope("authentication_error", "missing_api_key", MISSING));
const wrong = json(
  401,
  envelope("authentication_error", "invalid_api_key", "This API key does not exist on this server"),
);
const plain = (status: number, error: string, code: string) => json(status, { error, code });
const unknown = (call: string) =>
  json(404, envelope("not_found_error", "route_not_found", `No route ${call}; see /docs`));
const notDecodable = json(
  404,
  envelope("not_found_error", "route_not_found", "The path is not valid percent-encoded UTF-8"),
);
const absent = (what: string) => {
  const message = `model: no model that ${what} can be served here: models read and write text`;
  return json(404, envelope("invalid_request_error", "model_not_found", message, "/model"));
};
const lacking = (words: string) => json(404, envelope("not_found_error", "route_not_found", `This server ${words}`));
const refused = (path: string, allow: string) =>
  json(405, envelope("invalid_request_error", "method_not_allowed", `${path} takes ${allow}`), { allow });

const alive = (body: string) => ({
  status: 200,
  headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", vary: "accept" },
  body,
});

type Row = readonly [caller: Caller, method: string, path: string, answer: ReturnType<typeof json | typeof alive>];

describe("on the port for everything", () => {
  test.each([
    "/",
    "//",
    "/runs",
    "/runs/job_1?tab=log",
    "/nowhere",
    "/nowhere/",
    "/a%20b",
    "/a%c3%a4",
    "/*",
    "/:id",
    "/v1x",
    "/V1/workspaces",
  ])("a browser gets the page at %s", async (path) =>
    expect(await ask(app.handle, "browser", "GET", path)).toEqual({ status: 200, headers: PAGE_HEADERS, body: page }),
  );

  const rows: readonly Row[] = [
    ["guest", "GET", "/", alive("Ollama is running")],
    ["guest", "GET", "//", alive("Ollama is running")],
    ["guest", "HEAD", "/", alive("Ollama is running")],
    ["guest", "POST", "/", unknown("POST /")],
    ["guest", "GET", "/nowhere", unknown("GET /nowhere")],
    ["guest", "GET", "/nowhere/", unknown("GET /nowhere")],
    ["guest", "GET", "/nowhere?a=/b", unknown("GET /nowhere")],
    ["guest", "GET", "/a%20b", unknown("GET /a%20b")],
    ["guest", "GET", "/runs/%zz", notDecodable],
    ["browser", "GET", "/runs/%zz", notDecodable],
    ["browser", "GET", "/runs/%00", notDecodable],
    ["browser", "HEAD", "/nowhere", unknown("HEAD /nowhere")],
    ["browser", "POST", "/nowhere", unknown("POST /nowhere")],
    ["browser", "DELETE", "/", unknown("DELETE /")],
    ["browser", "OPTIONS", "/nowhere", unknown("OPTIONS /nowhere")],
    ["browser", "PROPFIND", "/nowhere", unknown("PROPFIND /nowhere")],
    ["browser", "GET", "/v1", unknown("GET /v1")],
    ["guest", "GET", "/v1/", unknown("GET /v1")],
    ["browser", "GET", "/assets", unknown("GET /assets")],
    ["browser", "GET", "/docs/x", unknown("GET /docs/x")],
    ["guest", "PUT", "/V1/workspaces", unknown("PUT /V1/workspaces")],

    ["guest", "GET", "/v1/nothing", missing],
    ["browser", "GET", "/v1/nothing", missing],
    ["guest", "HEAD", "/v1/nothing", missing],
    ["stranger", "GET", "/v1/nothing", wrong],
    ["owner", "GET", "/v1/nothing", unknown("GET /v1/nothing")],
    ["owner", "POST", "/v1/nothing/", unknown("POST /v1/nothing")],
    ["owner", "PROPFIND", "/v1/nothing", unknown("PROPFIND /v1/nothing")],
    ["guest", "POST", "/v1/workspaces%20", missing],
    ["guest", "PUT", "/v1/workspaces//", missing],
    ["guest", "POST", "/api/nothing", plain(401, MISSING_OF_SERVICE, "MISSING_API_KEY")],
    ["owner", "POST", "/api/nothing", plain(404, "No route POST /api/nothing; see /docs", "NOT_FOUND")],
    ["guest", "GET", "/api/tags/x", plain(401, MISSING_OF_SERVICE, "MISSING_API_KEY")],
    ["owner", "GET", "/api/tags/x", plain(404, "No route GET /api/tags/x; see /docs", "NOT_FOUND")],
    ["owner", "GET", "/v1/detect/x/y", plain(404, "No route GET /v1/detect/x/y; see /docs", "NOT_FOUND")],

    ["guest", "POST", "/v1/audio/speech", missing],
    ["stranger", "POST", "/v1/audio/speech", wrong],
    ["owner", "POST", "/v1/audio/speech", absent("speaks")],
    ["owner", "POST", "/v1/audio/transcriptions", absent("hears audio")],
    ["owner", "POST", "/v1/images/edits/", absent("makes images")],
    ["owner", "POST", "/v1/videos", absent("makes videos")],
    [
      "owner",
      "GET",
      "/v1/threads/x/runs",
      lacking("has no assistants and threads. Use agents, and responses with a conversation"),
    ],
    ["owner", "GET", "/v1/skills", lacking("keeps no skills. Put their text into the instructions of an agent")],
    [
      "owner",
      "POST",
      "/v1/realtime/client_secrets",
      lacking("speaks over no open connection. Use chat or responses with a stream"),
    ],
    ["guest", "POST", "/v1/skills", missing],
    ["owner", "POST", "/v1/audio/none", unknown("POST /v1/audio/none")],

    ["guest", "PUT", "/v1/workspaces", refused("/v1/workspaces", "GET, POST")],
    ["browser", "PUT", "/v1/workspaces", refused("/v1/workspaces", "GET, POST")],
    ["stranger", "PUT", "/v1/workspaces?a", refused("/v1/workspaces", "GET, POST")],
    ["owner", "OPTIONS", "/v1/workspaces", refused("/v1/workspaces", "GET, POST")],
    ["owner", "PROPFIND", "/v1/workspaces", refused("/v1/workspaces", "GET, POST")],
    ["guest", "PUT", "/v1/workspaces/x", refused("/v1/workspaces/x", "DELETE, GET, PATCH")],
    ["guest", "PUT", "/v1/workspaces/x/", refused("/v1/workspaces/x", "DELETE, GET, PATCH")],
    ["guest", "PUT", "/v1/workspaces/%78%2f", refused("/v1/workspaces/%78%2f", "DELETE, GET, PATCH")],
    ["guest", "PATCH", "/v1/volumes/x/files/a/b", refused("/v1/volumes/x/files/a/b", "DELETE, GET, PUT")],
    ["guest", "PATCH", "/v1/volumes/x/files/", refused("/v1/volumes/x/files", "GET")],
    ["browser", "GET", "/completion", refused("/completion", "POST")],
    ["guest", "HEAD", "/completion", refused("/completion", "POST")],
    ["guest", "POST", "/healthz", refused("/healthz", "GET")],
    ["guest", "PUT", "/setup", refused("/setup", "GET, POST")],
    ["guest", "POST", "/assets/x", refused("/assets/x", "GET")],
    ["browser", "GET", "/chat/completions", missing],
    ["browser", "PUT", "/chat/completions", refused("/v1/chat/completions", "GET, POST")],
    ["guest", "POST", "/metrics", refused("/v1/metrics", "GET")],
    [
      "guest",
      "PUT",
      "/api/chat",
      json(405, { error: "/api/chat takes POST", code: "method_not_allowed" }, { allow: "POST" }),
    ],
    [
      "guest",
      "PUT",
      "/v1/detect",
      json(405, { error: "/v1/detect takes POST", code: "METHOD_NOT_ALLOWED" }, { allow: "POST" }),
    ],
    [
      "guest",
      "PUT",
      "/v1/messages",
      json(
        405,
        {
          type: "error",
          error: { type: "api_error", message: "/v1/messages takes POST", code: "method_not_allowed", param: null },
        },
        { allow: "POST" },
      ),
    ],
  ];
  test.each(rows)("%s: %s %s", async (caller, method, path, answer) =>
    expect(await ask(app.handle, caller, method, path)).toEqual(answer),
  );

  test("a page that cannot be built is an error of the server, logged once", async () => {
    const { dashboard } = app.ctx.state;
    const whole = dashboard.bundle;
    dashboard.bundle = Promise.reject(new Error("no bundle"));
    const message = "Unexpected server error; the log has the details under this request's id";
    const answer = json(500, envelope("api_error", "internal", message));
    expect(await ask(app.handle, "browser", "GET", "/runs")).toEqual(answer);
    expect(app.log.filter((line) => line.includes("no bundle"))).toHaveLength(1);
    dashboard.bundle = whole;
  });
});

describe("on the port of detection", () => {
  const rows: readonly Row[] = [
    ["browser", "GET", "/", plain(404, "No route GET / on this port", "NOT_FOUND")],
    ["browser", "GET", "/runs/", plain(404, "No route GET /runs on this port", "NOT_FOUND")],
    ["guest", "HEAD", "/docs", plain(404, "No route HEAD /docs on this port", "NOT_FOUND")],
    ["owner", "GET", "/docs", plain(404, "No route GET /docs on this port", "NOT_FOUND")],
    ["guest", "GET", "/v1/workspaces", plain(401, MISSING, "MISSING_API_KEY")],
    ["guest", "GET", "/api/nothing", plain(401, MISSING_OF_SERVICE, "MISSING_API_KEY")],
    ["owner", "GET", "/v1/workspaces", plain(404, "No route GET /v1/workspaces on this port", "NOT_FOUND")],
    [
      "owner",
      "POST",
      "/v1/audio/speech",
      plain(404, "model: no model that speaks can be served here: models read and write text", "NOT_FOUND"),
    ],
    [
      "guest",
      "PUT",
      "/v1/detect",
      json(405, { error: "/v1/detect takes POST", code: "METHOD_NOT_ALLOWED" }, { allow: "POST" }),
    ],
    [
      "guest",
      "POST",
      "/healthz/",
      json(405, { error: "/healthz takes GET", code: "METHOD_NOT_ALLOWED" }, { allow: "GET" }),
    ],
  ];
  test.each(rows)("%s: %s %s", async (caller, method, path, answer) =>
    expect(await ask(detection, caller, method, path)).toEqual(answer),
  );
});

describe("over a connection", () => {
  let server: Bun.Server<undefined>;
  beforeAll(() => {
    server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => app.handle(request) });
  });
  afterAll(() => server.stop(true));

  test.each([
    ["HEAD /nowhere", 404, 120, undefined],
    ["HEAD /v1/nothing", 401, 174, undefined],
    ["HEAD /completion", 405, 118, "POST"],
    ["PROPFIND /v1/workspaces", 405, 126, "GET, POST"],
    ["TRACE /", 404, 114, undefined],
    ["CONNECT /v1/workspaces", 405, 126, "GET, POST"],
    ["GET /v1\\nothing", 401, 174, undefined],
    ["GET http://elsewhere/nowhere", 404, 119, undefined],
  ] as const)("%s is answered with %d and %d bytes", async (call, status, length, allow) => {
    const answer = await rawRequest(
      server.url.href,
      `${call} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    );
    expect(answer.status).toBe(status);
    const header = (name: string) => new RegExp(`^${name}: (.*)$`, "im").exec(answer.headers)?.[1]?.trim();
    expect(header("content-length")).toBe(String(length));
    expect(header("allow")).toBe(allow);
    expect(answer.body.length).toBe(call.startsWith("HEAD") ? 0 : length);
  });

  test.each(["BREW /nowhere", "ALL /nowhere", "get /nowhere"])(
    "%s ends the connection without an answer",
    async (call) => {
      const { headers, body } = await rawRequest(server.url.href, `${call} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect(headers + body).toBe("");
    },
  );
});

describe("a key in the wrong form", () => {
  const refusal = async (path: string, headers: Record<string, string>) => {
    const { status, body } = await app.call("GET", path, undefined, { key: null, headers });
    return [status, body.error.message ?? body.error];
  };
  const inAuthorization =
    "This route takes the key in the header X-API-Key, not in Authorization: send X-API-Key: vk_…";
  test("without the word Bearer names the word", async () => {
    const message = "Authorization: the header must be the word Bearer and a key: Authorization: Bearer vk_…";
    for (const path of ["/v1/models", "/v1/nothing"])
      expect(await refusal(path, { authorization: app.keyA })).toEqual([401, message]);
  });
  test("in Authorization is named on a route of detection, and works on an unknown path under /api", async () => {
    const headers = { authorization: `Bearer ${app.keyA}` };
    expect(await refusal("/v1/config", headers)).toEqual([401, inAuthorization]);
    expect(await refusal("/api/nothing", headers)).toEqual([404, "No route GET /api/nothing; see /docs"]);
  });
  test("in the header of Azure works on routes of OpenAI alone", async () => {
    const headers = { "api-key": app.keyA };
    expect((await app.call("GET", "/v1/files", undefined, { key: null, headers })).status).toBe(200);
    expect((await app.call("GET", "/v1/workspaces", undefined, { key: null, headers })).status).toBe(401);
  });
});
