/** Hubs, providers and trackers that answer what they like. The answers are read as the server reads them. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { issue, issueAuthority } from "../../src/platform/tls/issue.ts";
import { providerOf } from "../../src/resources/access/people/oidc/provider.ts";
import { listFiles } from "../../src/resources/serving/models/hub/hub.ts";
import { callOf, TRACKERS } from "../../src/resources/training/tracker/call.ts";
import type { TrackerType } from "../../src/resources/training/tracker/contract.ts";
import { cpuMsOf } from "../cost.ts";
import { tempDir, testApp } from "../harness.ts";
import { oidcFlags } from "../oidc_kit.ts";

const state = { answer: (_path: string): Response | string => "" };
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 255,
  fetch(request) {
    const answer = state.answer(new URL(request.url).pathname);
    return answer instanceof Response ? answer : new Response(answer);
  },
});
const { origin } = server.url;
const app = testApp({
  flags: oidcFlags(origin, { "network.allow": ["127.0.0.1"], "hub.endpoint": origin }),
});
afterAll(async () => {
  await app.close();
  app.remove();
  await server.stop(true);
});

const messageOf = (work: Promise<unknown>) =>
  work.then(
    () => "",
    (error: Error) => error.message,
  );
/** A body that goes on for as long as it is read. */
const endless = (part: string) =>
  new Response(
    new ReadableStream({ pull: (controller) => controller.enqueue(new TextEncoder().encode(part.repeat(10_000))) }),
  );
const MANY = (count: number, each: string) => Array(count).fill(each).join(",");

describe("the list of a hub", () => {
  const list = () => listFiles(app.ctx, "a/b", { token: undefined, workspaceId: app.workspaceA });
  const file = (name: string, more = "") => `{"rfilename":"${name}","size":1${more}}`;
  const ATTACKS: Record<string, [() => string | Response, string]> = {
    "without an end": [() => endless('{"rfilename":"x"},'), "has more than"],
    "with 20,001 files": [() => `{"siblings":[${MANY(20_001, file("x"))}]}`, "siblings: "],
    "with a long name": [() => `{"siblings":[${file("x".repeat(1_001))}]}`, "siblings.0.rfilename"],
    "with the wrong types": [() => '{"siblings":[{"rfilename":{"$ne":1}}]}', "siblings.0.rfilename"],
    "with a negative size": [() => '{"siblings":[{"rfilename":"x","size":-1}]}', "siblings.0.size"],
    "with a size that is no number": [() => '{"siblings":[{"rfilename":"x","size":1e999}]}', "siblings.0.size"],
    "with a hash that is a path": [
      () => `{"siblings":[${file("x", ',"lfs":{"sha256":"../../x"}')}]}`,
      "siblings.0.lfs",
    ],
    "of deep lists": [() => "[".repeat(1_000_000), "is not JSON"],
    "that is a page": [() => "<html>", "is not JSON"],
  };
  test.each(Object.keys(ATTACKS))("%s is refused, with the field", async (name) => {
    const [answer, message] = ATTACKS[name] as [() => string | Response, string];
    state.answer = answer;
    expect(await messageOf(list())).toContain(message);
  });

  test("of 20,000 files is read, and what is not asked for is dropped", async () => {
    state.answer = () => `{"siblings":[${MANY(20_000, file("x", `,"junk":"${"j".repeat(100)}"`))}]}`;
    expect(await list()).toHaveLength(20_000);
  });

  test("is not read over a plain redirect of a hub with TLS", async () => {
    const dir = tempDir();
    const authority = await issueAuthority("hub", Date.now());
    const own = await issue(authority, { names: ["127.0.0.1"], days: 1, purpose: "server", nowMs: Date.now() });
    writeFileSync(join(dir, "ca.pem"), authority.cert);
    const location = `${origin}/plain`;
    const secure = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: { cert: own.cert, key: own.key },
      fetch: () => new Response(null, { status: 302, headers: { location } }),
    });
    const flags = { "network.allow": ["127.0.0.1"], "network.ca_file": join(dir, "ca.pem") };
    const other = testApp({ flags: { ...flags, "hub.endpoint": secure.url.origin } });
    let isAsked = false;
    state.answer = () => {
      isAsked = true;
      return '{"siblings":[]}';
    };
    const list = listFiles(other.ctx, "a/b", { token: "secret", workspaceId: other.workspaceA });
    expect([await messageOf(list), isAsked]).toEqual([expect.stringMatching(/https/), false]);
    await secure.stop(true);
    await other.close();
    other.remove();
    rmSync(dir, { recursive: true, force: true });
  });
});

describe("a provider of identities", () => {
  const DISCOVERY = {
    issuer: origin,
    authorization_endpoint: `${origin}/a`,
    token_endpoint: `${origin}/t`,
    jwks_uri: `${origin}/k`,
  };
  const KEY = { kty: "RSA", kid: "1", n: "a".repeat(342), e: "AQAB" };
  const read = () => {
    app.ctx.state.people.oidc.provider = undefined;
    return providerOf(app.ctx);
  };
  const answers = (discovery: unknown, keys: unknown) => (path: string) => {
    const answer = path === "/k" ? keys : discovery;
    if (answer instanceof Response) return answer;
    return typeof answer === "string" ? answer : JSON.stringify(answer);
  };
  const ATTACKS: Record<string, [discovery: unknown, keys: unknown, message: string]> = {
    "with a long issuer": [{ ...DISCOVERY, issuer: "x".repeat(2_001) }, {}, "issuer: "],
    "with a plain address elsewhere": [
      { ...DISCOVERY, token_endpoint: "http://example.com/t" },
      {},
      "token_endpoint: ",
    ],
    "with 101 methods": [
      { ...DISCOVERY, token_endpoint_auth_methods_supported: Array(101).fill("x") },
      {},
      "token_endpoint_auth_methods_supported: ",
    ],
    "with 101 keys": [DISCOVERY, { keys: Array(101).fill(KEY) }, "keys: "],
    "with a key of a megabyte": [
      DISCOVERY,
      `{"keys":[{"kty":"RSA","n":"${"n".repeat(2 ** 20)}"}]}`,
      "more than 262144",
    ],
    "with a long number": [DISCOVERY, { keys: [{ ...KEY, n: "n".repeat(3_001) }] }, "keys.0.n: "],
    "with a discovery without an end": [endless('{"a":1},'), {}, "more than 262144"],
    "with keys that are no list": [DISCOVERY, { keys: { length: 1e9 } }, "keys: "],
    "that answers with a page": [new Response("<html>"), {}, "is not JSON"],
  };
  test.each(Object.keys(ATTACKS))("%s is refused, with the field", async (name) => {
    const [discovery, keys, message] = ATTACKS[name] as [unknown, unknown, string];
    state.answer = answers(discovery, keys);
    expect(await messageOf(read())).toContain(message);
  });

  test("within the limits is used, and unknown members of its keys are dropped", async () => {
    state.answer = answers({ ...DISCOVERY, more: "x".repeat(10_000) }, { keys: [{ ...KEY, x5c: ["junk"] }] });
    expect((await read()).keys).toEqual({ keys: [KEY] } as never);
  });
});

describe("a tracker", () => {
  const subject = { jobId: "job_1", name: "n", method: "sft", project: "p", createdAt: 1 };
  const open = (type: TrackerType) => {
    const to = { workspaceId: app.workspaceA, type, baseUrl: origin, secretName: null };
    return TRACKERS[type].open(callOf(app.ctx, to), subject, origin);
  };
  const has = () => {
    const to = { workspaceId: app.workspaceA, type: "mlflow" as const, baseUrl: origin, secretName: null };
    return TRACKERS.mlflow.has?.(callOf(app.ctx, to), { id: "r", project: "1", url: "" }) ?? Promise.resolve(new Map());
  };
  test.each(["mlflow", "wandb"] as const)("%s: hostile answers are refused, with the field", async (type) => {
    const wrong =
      type === "mlflow" ? '{"experiment":{"experiment_id":["x"]}}' : '{"data":{"upsertBucket":{"bucket":7}}}';
    const long =
      type === "mlflow"
        ? `{"experiment":{"experiment_id":"${"x".repeat(501)}"}}`
        : `{"errors":[${MANY(101, '{"message":"x"}')}]}`;
    const cases: [string | Response, string][] = [
      [wrong, "cannot be used: "],
      [long, "cannot be used: "],
      [endless("[1,"), "more than 262144 bytes"],
      ["<html>", "is not JSON"],
    ];
    for (const [answer, message] of cases) {
      state.answer = () => answer;
      expect(await messageOf(open(type))).toContain(message);
    }
  });

  test("with metrics of megabytes is read by a thread, and with too many is refused", async () => {
    const metric = (i: number) => `{"key":"m${i}","value":1,"step":${i},"junk":"${"j".repeat(60)}"}`;
    const run = (count: number) =>
      `{"run":{"data":{"metrics":[${Array.from({ length: count }, (_, i) => metric(i))}]}}}`;
    state.answer = () => run(20_000);
    expect((await has()).size).toBe(20_000);
    state.answer = () => run(20_001);
    expect(await messageOf(has())).toContain("metrics: ");
    state.answer = () => endless("[");
    expect(await cpuMsOf(async () => expect(await messageOf(has())).toContain("more than"))).toBeLessThan(5_000);
  });
});
