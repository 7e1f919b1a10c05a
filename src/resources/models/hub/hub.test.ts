import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { hashOf, ranged } from "../../../../test/fake_hub.ts";
import { tempDir, testApp } from "../../../../test/harness.ts";
import { appAt, hubOf, large, parts, pull, repo, small, stopAll, stops } from "../../../../test/hub_kit.ts";
import * as models from "../service.ts";
import { chooseFile } from "./hub.ts";

afterEach(stopAll);

test("a pulled model is downloaded, checked against the hub's hash and ready, with one event", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const requested = await app.call("POST", "/v1/models/pull", { name: "acme/tiny" });
  expect(requested).toMatchObject({
    status: 202,
    body: { status: "downloading", progress: 0, owned_by: app.workspaceA },
  });
  expect(app.woken).toContain("models.download");
  await pull(app);
  const { body } = await app.call("GET", `/v1/models/${requested.body.id}`);
  expect(body).toMatchObject({ status: "ready", file: "tiny-Q4_K_M.gguf", sha256: hashOf(small), progress: null });
  const path = models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, body.id));
  expect(path).toBe(join(app.dir, "models/hub/acme/tiny/tiny-Q4_K_M.gguf"));
  expect(hashOf(new Uint8Array(readFileSync(path)))).toBe(hashOf(small));
  expect(parts(app)).toEqual([]);
  const events = await app.call("GET", "/v1/events?types=model.created,model.ready,model.failed");
  expect(events.body.data.map((e: { type: string }) => e.type)).toEqual(["model.created", "model.ready"]);
  expect((await app.call("GET", `/v1/models/${body.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("POST", "/v1/models/pull", { name: "acme/tiny:Q4_K_M" })).body.id).toBe(body.id);
});

test("a broken connection goes on where it was, and a restart too", async () => {
  const hub = hubOf({ "acme/big": { files: { "big.gguf": large } } });
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/big");
  const closing = new AbortController();
  hub.trouble = (count) => {
    if (count === 1) return new Response("overloaded", { status: 503 });
    if (count === 3) closing.abort(); // the server shuts down in the middle
    return undefined;
  };
  await pull(app, closing.signal);
  expect(models.find(app.ctx, app.workspaceA, "acme/big")?.status).toBe("downloading");
  const kept = Bun.file(join(app.dir, "models/.downloads", parts(app)[0] ?? "")).size;
  expect(kept).toBeGreaterThan(0);
  hub.trouble = undefined;
  const before = hub.requests.length;
  await pull(app);
  expect(hub.requests.slice(before).find((r) => r.range)?.range).toStartWith(`bytes=${kept}-`);
  expect(models.find(app.ctx, app.workspaceA, "acme/big")).toMatchObject({ status: "ready", sha256: hashOf(large) });
});

test("a file that is not what the hub says is thrown away and the model fails", async () => {
  const hub = hubOf(repo({ wrongHash: ["tiny-Q4_K_M.gguf"] }));
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  const row = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
  expect(row).toMatchObject({ status: "failed", path: null });
  expect(row.error).toContain("is damaged");
  expect(parts(app)).toEqual([]);
});

test("a file that is no model is refused with the parser's words, at once", async () => {
  const hub = hubOf({ "acme/odd": { files: { "odd.gguf": small.slice(0, 5000) } } });
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/odd");
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/odd").error).toContain("odd.gguf cannot be used: The file");
  expect(hub.downloads).toBe(1);
});

test("the token goes to the hub and not to where it redirects", async () => {
  const store = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      seen.push(request.headers.get("authorization"));
      return ranged(small, request.headers.get("range"));
    },
  });
  stops.push(() => store.stop(true));
  const seen: (string | null)[] = [];
  const hub = hubOf(repo({ token: "hf_secret" }));
  hub.redirect = `http://localhost:${store.port}`;
  const app = appAt(hub.url, { "hub.token": "hf_secret", "hub.token_for": "all" });
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").status).toBe("ready");
  expect(hub.requests.map((r) => r.authorization)).toEqual(["Bearer hf_secret", "Bearer hf_secret"]);
  expect(seen).toEqual([null]);
  expect(app.log.join("\n")).not.toContain("hf_secret");
});

test("a redirect to an address inside is refused", async () => {
  const hub = hubOf(repo());
  hub.redirect = "http://169.254.169.254/latest";
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").error).toContain("169.254.169.254");
});

test("a gated or absent repository says what to do, and can be asked for again", async () => {
  const hub = hubOf(repo({ token: "other" }));
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  models.request(app.ctx, app.workspaceA, "acme/none");
  await pull(app);
  const { id, error } = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
  expect(error).toContain("set hub.token");
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/none").error).toContain("no repository acme/none");
  expect(models.request(app.ctx, app.workspaceA, "acme/tiny")).toMatchObject({
    id,
    status: "downloading",
    error: null,
  });
});

test("offline never dials, neither for a new model nor for one that was under way", async () => {
  const hub = hubOf(repo());
  const dir = tempDir();
  const before = testApp({ dir, flags: { "hub.endpoint": hub.url } });
  const { id } = models.request(before.ctx, before.workspaceA, "acme/tiny");
  await before.close();
  const app = testApp({ dir: tempDir(), flags: { "hub.endpoint": hub.url, offline: true } });
  stops.push(() => app.close().then(app.remove));
  const answer = await app.call("POST", "/v1/models/pull", { name: "acme/tiny" });
  expect(answer).toMatchObject({ status: 404, body: { error: { code: "resource_not_found", param: "/name" } } });
  expect(answer.body.error.message).toContain("verk models import");
  const again = appAt(hub.url, { offline: true }, dir);
  await pull(again);
  expect(again.ctx.db.$client.query("SELECT status, error FROM models WHERE id = ?").get(id)).toMatchObject({
    status: "failed",
  });
  expect(hub.requests).toEqual([]);
});

describe("which file a name means", () => {
  const file = (path: string, size = 1) => ({ path, size, sha256: null });
  const files = [
    file("m-F16.gguf", 9),
    file("m-Q8_0.gguf", 5),
    file("m-q4_k_m.gguf", 3),
    file("m-Q2_K.gguf", 1),
    file("x.txt"),
  ];
  const choose = (wanted?: string, from = files) => chooseFile("a/b", from, wanted).path;

  test("the usual quantization, the one that was named in any case, or the very file", () => {
    expect(choose()).toBe("m-q4_k_m.gguf");
    expect(choose("q8_0")).toBe("m-Q8_0.gguf");
    expect(choose("m-Q2_K.gguf")).toBe("m-Q2_K.gguf");
    expect(choose(undefined, [file("b.gguf", 7), file("a.gguf", 8)])).toBe("b.gguf");
  });

  test("what is not there, in parts, or no GGUF at all is said with what there is", () => {
    expect(() => choose("Q6_K")).toThrow("a/b has no file for Q6_K: it has m-F16.gguf");
    expect(() => choose(undefined, [file("m-00001-of-00002.gguf")])).toThrow("several parts");
    expect(() => choose(undefined, [file("model.safetensors"), file("README.md")])).toThrow("it has .safetensors, .md");
    expect(() => choose(undefined, [file("../../etc/x.gguf")])).toThrow("no GGUF file");
    expect(() => choose(undefined, [file(`${"x".repeat(251)}.gguf`)])).toThrow("no GGUF file");
  });

  test("a list that lies does not become a long error", () => {
    const long = Array.from({ length: 50 }, (_, i) => file(`${i}.${"y".repeat(100_000)}`));
    const message = (files: ReturnType<typeof file>[]) => {
      try {
        return choose("Q6_K", files);
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(message(long).length).toBeLessThan(600);
    const named = Array.from({ length: 50 }, (_, i) => file(`${"z/".repeat(5)}${i}${"z".repeat(200)}.gguf`));
    expect(message(named).length).toBeLessThan(3_500);
  });
});
