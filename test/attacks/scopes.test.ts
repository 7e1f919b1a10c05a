import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { SCOPES, type Scope } from "../../src/context.ts";
import { manyDetecting } from "../detection_kit.ts";
import type { TestApp } from "../harness.ts";
import { JOURNEY } from "../meta/journey.ts";

setDefaultTimeout(120_000);
const { open, closeAll } = manyDetecting();
let app: TestApp;
const keys = new Map<Scope, string>();
beforeAll(() => {
  app = open({ flags: { "http.rate_limit_per_second": 0 } });
  for (const scope of SCOPES) keys.set(scope, app.keyOf("alpha", [scope]).key);
});
afterAll(closeAll);

/** Written down apart from the routes: which scope a path needs. The first that fits counts. */
const NEEDS: readonly [path: RegExp, scope: Scope | "account" | "any" | "every" | "files" | "none"][] = [
  [/^\/(healthz|readyz|version|setup|docs|openapi\.json)$|^\/v1\/public\//, "none"],
  [/^\/v1\/volumes\/[^/]+\/(signed|uploads\/[^/]+$|uploads\/[^/]+\/parts)|^\/v1\/models\/[^/]+\/uploads\//, "none"],
  [/^\/v1\/training_jobs\/[^/]+\/exports\/|^\/v1\/models\/[^/]+\/file$/, "none"],
  [/^\/v1\/logins/, "none"],
  [/^\/v1\/(browser_sessions|me(\/|$))/, "every"],
  [/^\/v1\/workspaces|^\/v1\/system\/|^\/v1\/models\/scan$|^\/v1\/billing\/grants|^\/v1\/settings(\/[^/]+)?$/, "admin"],
  [
    /^\/v1\/account\/audit_log|^\/v1\/(api_keys|users|invitations|ssh_keys|secrets|webhooks|settings|events)/,
    "account",
  ],
  [/^\/v1\/account$/, "any"],
  [/^\/v1\/models\/[^/]+\/(template|push)$/, "training"],
  [/^\/v1\/rollouts\/dataset$/, "training"],
  [/^\/v1\/annotation_queues\/[^/]+\/(items\/|next$)/, "annotate"],
  [
    /^\/v1\/(models|deployments|chat|completions|embeddings|messages|responses|batches|rerank|rollouts|traces|conversations|vector_stores|moderations|otlp)/,
    "inference",
  ],
  [/^\/(completion|infill|tokenize|detokenize|apply-template|props|slots|lora-adapters)$/, "inference"],
  [/^\/v1beta\/models|^\/models\/[^/]+\/pipeline\//, "inference"],
  [/^\/v1\/metrics$/, "metrics"],
  [/^\/v1\/(files|uploads)/, "files"],
  [/^\/api\/(chat|generate|embed|embeddings|tags|show|ps|version|pull|delete|copy|create|v0\/models)$/, "inference"],
  [/^\/api\/push$/, "training"],
  [/^\/api\/|^\/v1\/(detect|config|stats|usage|feedback|results)/, "detect"],
  [/^\/v1\//, "training"],
];

/** To call an upload off is no use of its signed address. */
const needOf = (method: string, path: string) =>
  method === "DELETE" && path.includes("/uploads/")
    ? "training"
    : isAnnotatorsList(method, path)
      ? "annotate"
      : changesRegions(method, path)
        ? "account"
        : (NEEDS.find(([pattern]) => pattern.test(path))?.[1] ?? "none");
const isAnnotatorsList = (method: string, path: string) =>
  method === "GET" && /^\/v1\/annotation_queues(\/[^/]+(\/items)?)?$/.test(path);
/** A region uses a private key. */
const changesRegions = (method: string, path: string) => method !== "GET" && path.startsWith("/v1/regions");

/** To be shown what signs, a key must be able to write. */
const REVEALS = /^\/v1\/webhooks\/[^/]+\/secret$/;

const mayUse = (scope: Scope, need: string, reads: boolean): boolean => {
  if (scope === "admin" || need === "every") return true;
  if (need === "admin") return false;
  if (scope === "*") return true;
  if (need === "any" && reads) return true;
  if (need === "files" && (scope === "inference" || scope === "training")) return true;
  return scope === need || (scope === "read" && reads) || (scope === "training" && need === "annotate");
};

describe("every operation with every scope", () => {
  const calls = [...new Set(JOURNEY.map(({ operation }) => operation))].map((operation) => {
    const [method = "", template = ""] = operation.split(" ");
    const path = template.replaceAll(/\{\w+\}/g, "none_00000000000000000000000000");
    return { operation, method, path, need: needOf(method, path) };
  });

  test("there are more than 100 operations, and callers without a key have few", () => {
    expect(calls.length).toBeGreaterThan(100);
    expect(calls.filter(({ need }) => need === "none")).toHaveLength(16);
  });

  test.each(SCOPES.map((scope) => [scope]))("%s opens its operations and nothing else", async (scope) => {
    const wrong: string[] = [];
    for (const { operation, method, path, need } of calls) {
      if (need === "none") continue;
      const reads = method === "GET" && !REVEALS.test(path);
      const json = method === "GET" || method === "DELETE" ? undefined : {};
      const { status, body } = await app.call(method, path, json, { key: keys.get(scope)! });
      const codes = [body.code, body.error?.code, body.error?.details?.[0].reason];
      const refused = status === 403 && codes.some((code) => /^missing_scope$/i.test(String(code)));
      if (refused === mayUse(scope, need, reads)) wrong.push(`${operation}: ${status}, needs ${need}`);
    }
    expect(wrong).toEqual([]);
  });
});

describe("a key cannot raise its own rights", () => {
  const mint = (scope: Scope, json: object) =>
    app.call("POST", "/v1/api_keys", { name: "k", ...json }, { key: keys.get(scope)! });

  test.each(["read", "inference", "training", "detect", "metrics"] as const)(
    "%s makes no key at all",
    async (scope) => {
      for (const wanted of SCOPES) expect((await mint(scope, { scopes: [wanted] })).status).toBe(403);
    },
  );

  test("a key of one workspace cannot make an admin key, alone or in a list, in any spelling", async () => {
    for (const scopes of [["admin"], ["*", "admin"], ["read", "admin"]])
      expect((await mint("*", { scopes })).status).toBe(403);
    for (const scopes of [
      ["ADMIN"],
      ["admin "],
      [" admin"],
      ["**"],
      ["admin\u0000"],
      ["аdmin"],
      "admin",
      [["admin"]],
      {},
    ])
      expect((await mint("*", { scopes })).status).toBe(422);
  });

  test("a key that expires cannot make a key that outlives it", async () => {
    const ends = new Date(Date.now() + 3_600_000).toISOString();
    const { body } = await mint("*", { scopes: ["*"], expires_at: ends });
    const child = (json: object) =>
      app.call("POST", "/v1/api_keys", { name: "k", scopes: ["*"], ...json }, { key: body.key });
    for (const expires_at of [null, new Date(Date.now() + 7_200_000).toISOString()]) {
      const made = await child({ expires_at });
      const outlives = made.status < 300 && (made.body.expires_at === null || made.body.expires_at > ends);
      expect([expires_at, outlives]).toEqual([expires_at, false]);
    }
  });

  test("a webhook's secret is not shown to a key that only reads", async () => {
    const { body } = await app.call("POST", "/v1/webhooks", { url: "https://203.0.114.7/" });
    const path = `/v1/webhooks/${body.id}/secret`;
    expect((await app.call("GET", path, undefined, { key: keys.get("read")! })).status).toBe(403);
    expect((await app.call("GET", path, undefined, { key: keys.get("*")! })).status).toBe(200);
  });

  test("no answer to a key that reads holds a secret's value or a key", async () => {
    await app.call("PUT", "/v1/secrets/TOPSECRET", { value: "v4lue-of-the-secret" });
    for (const { operation } of JOURNEY.filter((step) => step.operation.startsWith("GET ") && !step.own && !step.raw)) {
      const { body } = await app.call("GET", operation.split(" ")[1]!, undefined, { key: keys.get("read")! });
      const text = JSON.stringify(body);
      expect([operation, text.includes("v4lue-of-the-secret"), /vk_[A-Za-z0-9]{20,}/.test(text)]).toEqual([
        operation,
        false,
        false,
      ]);
    }
  });
});
