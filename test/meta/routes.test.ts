import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { EVENT_TYPES } from "../../src/events/catalog.ts";
import { events } from "../../src/events/table.ts";
import { clientFormatOf } from "../../src/http/answer/client_errors.ts";
import { isServicePath } from "../../src/http/answer/service_errors.ts";
import { openapi } from "../../src/http/openapi.ts";
import type { Route } from "../../src/http/route_groups.ts";
import { durable } from "../../src/platform/db/db.ts";
import * as setup from "../../src/resources/access/setup/service.ts";
import { detecting } from "../detection_kit.ts";
import { type Answer, type TestApp, testApp } from "../harness.ts";
import { JOURNEY, meanwhile, play, type Step } from "./journey.ts";

let app: TestApp;
let all: readonly Route[];
beforeAll(async () => {
  app = detecting({ flags: { "network.allow": ["127.0.0.1"] } });
  all = await app.handle.routes();
});
afterAll(() => app.close().then(app.remove));

/** Routes without authentication. A new line here must be safe without a key. */
const PUBLIC = [
  "ALL /{path}",
  "GET /assets/{name}",
  "GET /docs",
  "GET /docs/chapters",
  "GET /docs/chapters/{name}",
  "GET /healthz",
  "GET /openapi.json",
  "GET /readyz",
  "GET /setup",
  "GET /v1/logins/oidc",
  "GET /v1/logins/oidc/callback",
  "GET /v1/logins/options",
  "GET /v1/models/{id}/file",
  "GET /v1/public/runs",
  "GET /v1/public/runs/{id}",
  "GET /v1/training_jobs/{id}/exports/{export}",
  "GET /v1/volumes/{name}/signed/{path}",
  "GET /version",
  "POST /setup",
  "POST /v1/logins",
  "POST /v1/logins/invitations",
  "POST /v1/public/runs/{id}/like",
  "PUT /v1/models/{id}/uploads/{upload}",
  "PUT /v1/volumes/{name}/uploads/{id}",
  "PUT /v1/volumes/{name}/uploads/{id}/parts/{number}",
];

const routes = () =>
  all.map((r) => ({
    ...r,
    name: `${r.method} ${r.path.replaceAll(/:(\w+)/g, "{$1}").replaceAll("/*", "/{path}")}`,
  }));
type Documented = Record<string, Record<string, { security?: [] }>>;
const documented = () =>
  Object.entries((openapi(all) as { paths: Documented }).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );

test("every route is in the document, except the pages", () => {
  const known = new Set(documented().map((d) => d.name));
  const missing = routes()
    .map((r) => r.name)
    .filter((name) => !known.has(name));
  expect(missing.sort()).toEqual([
    "ALL /{path}",
    "GET /assets/{name}",
    "GET /docs",
    "GET /docs/chapters",
    "GET /docs/chapters/{name}",
    "GET /openapi.json",
    "GET /setup",
    "GET /v1/logins/oidc",
    "GET /v1/logins/oidc/callback",
  ]);
});

test("the journey calls every operation", () => {
  const played = new Set(JOURNEY.map((step) => step.operation));
  expect(
    documented()
      .map((d) => d.name)
      .filter((name) => !played.has(name)),
  ).toEqual([]);
});

test("every route needs a key unless it is listed as public, for any request", async () => {
  const open: string[] = [];
  for (const { method, path, name } of routes()) {
    const json = method === "GET" || method === "DELETE" ? undefined : { nonsense: true };
    const { status, body } = await app.call(method, path.replaceAll(/:\w+/g, "x"), json, { key: null });
    const code = isServicePath(path) ? "MISSING_API_KEY" : "missing_api_key";
    if (status === 401 && [body.code, body.error.code, body.error.details?.[0].reason].includes(code)) continue;
    open.push(name);
  }
  expect(open.sort()).toEqual(PUBLIC);
  const document = documented();
  const marked = document.filter((d) => d.operation.security?.length === 0).map((d) => d.name);
  expect(marked.sort()).toEqual(PUBLIC.filter((name) => document.some((d) => d.name === name)));
});

const isService = ({ operation }: Step) => isServicePath(operation.split(" ")[1] ?? "");
/** The audit log has an entry of this very call. */
async function isAudited({ operation }: Step, { status, headers }: Answer): Promise<boolean> {
  await durable(app.ctx.db);
  const [method = "", template = ""] = operation.split(" ");
  const pattern = new RegExp(`^${template.replaceAll(/\{(\w+)\}/g, "[^/]+")}$`);
  return app.ctx.db.$client
    .query<{ path: string }, [string | null, string, number]>(
      "SELECT path FROM audit_log WHERE request_id = ? AND method = ? AND status = ?",
    )
    .all(headers.get("x-request-id"), method, status)
    .some(({ path }) => pattern.test(path));
}

const NONE = "none_00000000000000000000000000";

describe("the journey", () => {
  const calls = JOURNEY.filter((step) => !step.raw).map((step) => [step.operation, step] as [string, Step]);

  const missing: string[] = []; // calls that wrote nothing to the audit log
  test.each(calls)("%s succeeds as documented", async (_name, step) => {
    const answer = await play(app, step); // the harness checks the answer against the document
    if (!(await isAudited(step, answer))) missing.push(step.operation);
    expect(answer.body.error ?? null).toBeNull(); // some records have the field
    expect(answer.status).toBeLessThan(300);
    if (!isService(step) && !step.plain) expect(typeof (step.bytes ? answer.body : answer.body.object)).toBe("string");
    expect(answer.headers.get("x-request-id")).toBeTruthy();
  });

  /** Inference and single detections have records of their own; likes are strangers'. */
  const UNAUDITED =
    /\/(completions|embeddings|like|detect|detect\/url|completion|infill|tokenize|detokenize|apply-template|input_tokens|rerank|moderations|messages|count_tokens|responses|chat|generate|embed|show|\w+Contents?|countTokens|feature-extraction)$/;
  test("every call of the journey that is no read is in the audit log", () => {
    const writing = missing.filter((operation) => !operation.startsWith("GET "));
    expect(writing.filter((operation) => !UNAUDITED.test(operation))).toEqual([]);
    expect(writing.filter((operation) => UNAUDITED.test(operation))).toHaveLength(33);
  });

  test.each(calls.filter(([, step]) => step.own && !step.shared && !step.as))(
    "%s does not see another workspace",
    async (_name, step) => {
      const answer = await play(app, step, app.keyB);
      const named = { type: "invalid_request_error", code: "model_not_found" };
      const format = clientFormatOf(step.operation.split(" ")[1] ?? "");
      if (format === "ollama") return expect(answer.status).toBe(404); // its error is a text
      if (format === "google") return expect(answer).toMatchObject({ status: 404, body: { error: { code: 404 } } });
      const isNamed = format === "openai" && !step.operation.includes("{");
      const error = isNamed ? named : { type: "not_found_error", code: "resource_not_found" };
      expect(answer).toMatchObject({ status: 404, body: isService(step) ? { code: "NOT_FOUND" } : { error } });
    },
  );

  test.each(calls.filter(([, step]) => step.own && /\{(id|jobId)\}/.test(step.operation)))(
    "%s does not find an invented id",
    async (_name, step) => {
      const answer = await play(app, { ...step, own: async () => ({ id: NONE, jobId: NONE }) });
      const signed = PUBLIC.includes(step.operation) && !step.operation.includes("/v1/public/");
      expect(answer.status).toBe(signed ? 403 : 404); // no signature, no hint
    },
  );

  test("the setup token buys one admin key, once", async () => {
    const fresh = testApp();
    fresh.ctx.db.$client.run("DELETE FROM api_keys");
    const { setupToken } = setup.prepare(fresh.ctx);
    const redeem = () => fresh.call("POST", "/setup", { token: setupToken }, { key: null });
    const first = await redeem();
    expect(first).toMatchObject({ status: 201, body: { scopes: ["admin"] } });
    expect((await fresh.call("GET", "/v1/workspaces", undefined, { key: first.body.key })).status).toBe(200);
    expect((await redeem()).status).toBe(401);
    expect(setup.prepare(fresh.ctx).setupToken).toBeUndefined();
    await fresh.close().then(fresh.remove);
  });

  test("the setup token is invalid as soon as a key of any origin exists", async () => {
    const fresh = testApp();
    fresh.ctx.db.$client.run("DELETE FROM api_keys");
    const { setupToken } = setup.prepare(fresh.ctx);
    fresh.keyOf("alpha", ["*"]);
    const late = await fresh.call("POST", "/setup", { token: setupToken }, { key: null });
    expect(late).toMatchObject({ status: 401, body: { error: { code: "invalid_api_key" } } });
    await fresh.close().then(fresh.remove);
  });

  test("emits every type of the catalogue", async () => {
    await meanwhile(app);
    const seen = new Set(
      app.ctx.db
        .select()
        .from(events)
        .all()
        .map((e) => e.type),
    );
    expect(EVENT_TYPES.filter((type) => !seen.has(type))).toEqual([]);
  });
});
