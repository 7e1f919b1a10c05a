import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { bytesOf, clipOf, type DetectingApp, detecting, imageOf, manyDetecting } from "../../../test/detection_kit.ts";
import { fakeClock } from "../../../test/harness.ts";
import { verifyReport } from "../../lib/detection/signed_report.ts";
import { sha256Bytes } from "../../platform/files.ts";

const { open, closeAll } = manyDetecting();
afterEach(closeAll);

describe("a detection", () => {
  test("DET1 has every key of the specification, and is found again by its id", async () => {
    const app = open();
    const bytes = bytesOf({ score: { detector_v0: 0.9, detector_v1: 0.7 } });
    const json = { image: bytes.toString("base64"), models: ["detector_v0", "detector_v1"], robustness: true };
    const { status, body } = await app.call("POST", "/api/detect", json);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      prediction: "likely_ai",
      verdict: "likely_ai",
      isFake: true,
      models_succeeded: 2,
      models_total: 2,
      model_results: {
        detector_v0: { score: 0.9, status: "success", error: null },
        detector_v1: { score: 0.7, status: "success", error: null },
      },
      imageHash: sha256Bytes(bytes),
      cached: false,
      aboveThreshold: true,
      modelVersions: { detector_v0: "1", detector_v1: "1" },
      signals: { c2pa: null, robustness: { flips: false } },
      image: { width: 640, height: 480, format: "jpeg", sizeBytes: bytes.length },
      audio: null,
      feedback: null,
    });
    expect(body.ensemble_score).toBeCloseTo(0.8, 12);
    expect(body.confidence).toBeCloseTo(0.6, 12);
    expect(body.processingTimeMs).toBeGreaterThanOrEqual(body.detection_latency_ms);
    expect(Date.parse(body.timestamp)).toBeGreaterThan(0);
    expect((await app.call("GET", `/api/detect/${body.id}`)).body).toEqual(body);
  });

  test("names one model, or several, or those of the account", async () => {
    const app = open();
    const modelsOf = async (more: object) => Object.keys((await app.detect({}, more)).body.model_results);
    expect(await modelsOf({})).toEqual(["detector_v0"]);
    expect(await modelsOf({ model: "detector_v1" })).toEqual(["detector_v1"]);
    expect(await modelsOf({ models: ["detector_v1", "detector_v0", "detector_v1"] })).toEqual([
      "detector_v1",
      "detector_v0",
    ]);
    await app.call("PUT", "/v1/config", { defaultModels: ["detector_v1", "detector_audio_v0"] });
    expect(await modelsOf({})).toEqual(["detector_v1"]);
    const clip = await app.call("POST", "/v1/detect", { audio: clipOf({ score: 0.2 }) });
    expect(clip.body).toMatchObject({ image: null, audio: { sampleRate: 16_000 }, prediction: "likely_real" });
    const report = await app.call("GET", `/api/detect/${clip.body.id}/report`);
    expect(report.body).toContain("Call a recording generated from a score of 0.55 on");
    expect(Object.keys(clip.body.model_results)).toEqual(["detector_audio_v0"]);
  });

  test("DET3 a model that fails is in model_results, and the other models count; if all fail, the answer is a 503 without a charge", async () => {
    const app = open({ flags: { "detect.initial_credits": 10 } });
    const models = ["detector_v0", "detector_v1"];
    const one = await app.detect({ score: 0.2, errors: { detector_v1: "no weights" } }, { models });
    expect(one.body).toMatchObject({ models_succeeded: 1, models_total: 2, ensemble_score: 0.2 });
    expect(one.body.model_results.detector_v1).toMatchObject({ score: 0.5, status: "error", error: "no weights" });
    const mixed = await app.detect({ score: 0.4 }, { models: ["detector_v0", "detector_audio_v0"] });
    expect(mixed.body).toMatchObject({ models_succeeded: 1, models_total: 2 });
    expect(mixed.body.model_results.detector_audio_v0.error).toContain("takes speech");
    const none = await app.detect({ errors: { detector_v0: "a", detector_v1: "b" } }, { models });
    expect([none.status, none.body.code]).toEqual([503, "ALL_MODELS_FAILED"]);
    const failed = (error: string) => ({ score: 0.5, status: "error", latency_ms: expect.any(Number), error });
    expect(none.body.model_results).toEqual({ detector_v0: failed("a"), detector_v1: failed("b") });
    const single = await app.detect({ errors: { detector_v0: "a" } });
    expect(single).toMatchObject({ status: 503, body: { model_results: { detector_v0: failed("a") } } });
    const wrong = await app.detect({}, { model: "detector_audio_v0" });
    expect([wrong.status, wrong.body.model_results]).toEqual([
      415,
      { detector_audio_v0: failed("The model takes speech, not images") },
    ]);
    expect((await app.call("GET", "/v1/config")).body.credits).toBe(8);
  });

  test("is use: the audit log has refused ones, and what changes something", async () => {
    const app = open();
    const { body } = await app.detect();
    for (const path of ["/v1/detect", "/api/detect"]) await app.call("POST", path, { image: imageOf() });
    await app.call("POST", "/api/detect", { image: "no base64!" });
    await app.call("POST", `/api/detect/${body.id}/feedback`, { label: "ai" });
    await app.call("PUT", "/v1/config", { cacheEnabled: false });
    const { data } = (await app.call("GET", "/v1/account/audit_log")).body;
    expect(data.map((entry: { status: number; route: string }) => `${entry.status} ${entry.route}`).reverse()).toEqual([
      "400 /api/detect",
      "200 /api/detect/{id}/feedback",
      "200 /v1/config",
    ]);
  });

  test("has a signed report, in which texts of the file are text", async () => {
    const app = open();
    const prompt = `<script>alert("x")</script>`;
    const instructions = { score: 0.2, metadata: { camera: null, software: null, generator: "ComfyUI", prompt } };
    const { body } = await app.detect(instructions, { robustness: true });
    expect(body).toMatchObject({ declared: "metadata", prediction: "ai", ensemble_score: 0.85, pixel_score: 0.2 });
    const get = (key?: string) =>
      app.call("GET", `/api/detect/${body.id}/report`, undefined, { ...(key ? { key } : {}) });
    const { status, headers, body: text } = await get();
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    for (const part of [
      body.id,
      body.imageHash,
      "0.850",
      "ComfyUI",
      "JPEG, quality 60",
      "When to abstain",
      "@media print",
    ])
      expect(text).toContain(part);
    expect(text).toContain("&#60;script&#62;");
    expect(text).not.toContain("<script");
    expect(verifyReport(new TextEncoder().encode(text))).toMatchObject({ valid: true });
    expect(verifyReport(new TextEncoder().encode(text.replace("0.850", "0.150")))).toMatchObject({ valid: false });
    expect((await get()).body).toBe(text);
    expect((await get(app.keyB)).status).toBe(404);
  });

  test("takes the last word of feedback", async () => {
    const app = open();
    const { body } = await app.detect();
    const path = `/api/detect/${body.id}`;
    await app.call("POST", `${path}/feedback`, { label: "ai", comment: "six fingers" });
    const last = await app.call("POST", `${path}/feedback`, { label: "real" });
    expect(last.body.feedback).toMatchObject({ label: "real", comment: null });
    expect((await app.call("GET", path)).body.feedback.label).toBe("real");
    expect((await app.call("POST", `${path}/feedback`, { label: "maybe" })).status).toBe(400);
  });
});

describe("the cache", () => {
  test("answers the same image and models again, free of credit, for this workspace alone", async () => {
    const app = open({ flags: { "detect.initial_credits": 100 } });
    const json = { image: imageOf({ score: 0.9 }) };
    const first = await app.call("POST", "/api/detect", json);
    const again = await app.call("POST", "/v1/detect", json);
    expect(again.body).toMatchObject({ id: first.body.id, cached: true, timestamp: first.body.timestamp });
    expect(app.scored()).toBe(1);
    for (const other of [{ model: "detector_v1" }, { robustness: true }])
      expect((await app.call("POST", "/api/detect", { ...json, ...other })).body.cached).toBe(false);
    expect((await app.call("POST", "/api/detect", json, { key: app.keyB })).body.cached).toBe(false);
    expect((await app.call("GET", "/v1/config")).body.credits).toBe(97);
  });

  test("conformance 16 (decided): one model that cannot read the file is 415, with its error in model_results", async () => {
    const app = open();
    const { status, body } = await app.detect({}, { model: "detector_audio_v0" });
    expect([status, body.code]).toEqual([415, "UNSUPPORTED_FORMAT"]);
    expect(body.model_results.detector_audio_v0).toMatchObject({ status: "error", score: 0.5 });
  });

  test("conformance 17 (decided): defaultThreshold changes aboveThreshold alone", async () => {
    const app = open();
    const seen: unknown[] = [];
    for (const defaultThreshold of [0.01, 0.99]) {
      await app.call("PUT", "/v1/config", { defaultThreshold });
      const { prediction, isFake, aboveThreshold } = (await app.detect({ score: 0.6 })).body;
      seen.push([prediction, isFake, aboveThreshold]);
    }
    expect(seen).toEqual([
      ["likely_ai", true, true],
      ["likely_ai", true, false],
    ]);
  });

  test("the account's share of generated files moves the score of new and of cached results", async () => {
    const app = open();
    const json = { image: imageOf({ score: 0.6 }) };
    const before = (await app.call("POST", "/api/detect", json)).body;
    expect(before).toMatchObject({ ensemble_score: 0.6, prediction: "likely_ai", cached: false, reason: null });
    expect((await app.call("PUT", "/v1/config", { prior: 0.1 })).body.prior).toBe(0.1);
    const after = (await app.call("POST", "/api/detect", json)).body;
    expect(after).toMatchObject({ cached: true, pixel_score: 0.6, prediction: "real", isFake: false });
    expect(after.ensemble_score).toBeCloseTo(0.06 / (0.06 + 0.36), 9);
    expect(after.reason).toContain("10 %");
    const other = (await app.detect({ score: 0.7 })).body;
    await app.call("PUT", "/v1/config", { prior: 0.5 });
    expect((await app.call("GET", `/api/detect/${other.id}`)).body.ensemble_score).toBe(other.ensemble_score);
  });

  test("DET2 is off where the account says so, follows the threshold of now, and ends with a model's version", async () => {
    const app = open({ lives: [{ version: "1" }, { version: "2" }], flags: { "detect.idle_seconds": 1 } });
    const json = { image: imageOf({ score: 0.6 }) };
    await app.call("POST", "/api/detect", json);
    await app.call("PUT", "/v1/config", { defaultThreshold: 0.7 });
    expect((await app.call("POST", "/api/detect", json)).body).toMatchObject({ cached: true, aboveThreshold: false });
    await app.call("PUT", "/v1/config", { cacheEnabled: false });
    expect((await app.call("POST", "/api/detect", json)).body.cached).toBe(false);
    await app.call("PUT", "/v1/config", { cacheEnabled: true });
    await app.close();
    const later = open({ dir: app.dir, lives: [{ version: "2" }] });
    expect((await later.call("POST", "/api/detect", json, { key: app.keyA })).body).toMatchObject({
      cached: false,
      modelVersions: { detector_v0: "2" },
    });
  });

  test("does not keep a result that a model is missing from", async () => {
    const app = open();
    const json = { image: imageOf({ errors: { detector_v1: "late" } }), models: ["detector_v0", "detector_v1"] };
    for (let i = 0; i < 2; i++) expect((await app.call("POST", "/api/detect", json)).body.cached).toBe(false);
  });
});

describe("what is wrong is said in this interface's own shape", () => {
  let app: DetectingApp;
  beforeAll(() => {
    app = detecting({ flags: { "detect.max_image_bytes": 2048 } });
  });
  afterAll(() => app.close().then(app.remove));
  const small = Buffer.concat([bytesOf(), Buffer.alloc(3_000)]);
  test.each([
    ["no image", { model: "detector_v0" }, 400, "INVALID_REQUEST", "image"],
    ["an image that is no text", { image: 7 }, 400, "INVALID_REQUEST", "image"],
    ["both", { image: "x", audio: "x" }, 400, "INVALID_REQUEST", "audio"],
    ["no base64", { image: "%%%%" }, 400, "INVALID_IMAGE", "base64"],
    ["an empty image", { image: "" }, 400, "INVALID_IMAGE", "base64"],
    [
      "a picture of another kind",
      { image: Buffer.from("BM....").toString("base64") },
      415,
      "UNSUPPORTED_FORMAT",
      "JPEG",
    ],
    ["speech to a model of images", { image: clipOf(), model: "detector_v0" }, 415, "UNSUPPORTED_FORMAT", "images"],
    ["a model nobody has", { image: imageOf(), model: "gpt" }, 400, "UNKNOWN_MODEL", "detector_v1"],
    ["model and models", { image: imageOf(), model: "a", models: ["b"] }, 400, "INVALID_REQUEST", "models"],
    ["no models at all", { image: imageOf(), models: [] }, 400, "INVALID_REQUEST", "models"],
    ["an image that is too large", { image: small.toString("base64") }, 413, "IMAGE_TOO_LARGE", "2048"],
    ["a body that is too large", { image: "A".repeat(200_000) }, 413, "IMAGE_TOO_LARGE", "larger"],
    [
      "a refusal",
      { image: imageOf({ refuse: { code: "INVALID_IMAGE", error: "cut off" } }) },
      400,
      "INVALID_IMAGE",
      "cut off",
    ],
  ])("%s", async (_name, json, status, code, words) => {
    const answer = await app.call("POST", "/api/detect", json);
    expect(answer).toMatchObject({ status, body: { code, error: expect.stringContaining(words) } });
    const more = _name === "speech to a model of images" ? ["model_results"] : [];
    expect(Object.keys(answer.body).sort()).toEqual(["code", "error", ...more]);
    expect(answer.headers.get("x-request-id")).toBeTruthy();
  });

  test.each([
    ["no such route", "GET", "/api/nothing", 404, "NOT_FOUND"],
    ["no such route below", "POST", "/v1/detect/nothing", 404, "NOT_FOUND"],
    ["no such detection", "GET", "/api/detect/det_none", 404, "NOT_FOUND"],
    ["no such batch", "GET", "/api/detect/batch/bat_none", 404, "NOT_FOUND"],
    ["another method", "GET", "/api/detect", 405, "METHOD_NOT_ALLOWED"],
    ["another method of a place that looks like an id", "GET", "/api/detect/url", 405, "METHOD_NOT_ALLOWED"],
    ["another method of the configuration", "PATCH", "/v1/config", 405, "METHOD_NOT_ALLOWED"],
    ["a path that is not UTF-8", "GET", "/api/detect/%E0%A4%A", 404, "NOT_FOUND"],
  ])("%s", async (_name, method, path, status, code) => {
    expect(await app.call(method, path)).toMatchObject({ status, body: { code, error: expect.any(String) } });
  });

  test("a body that is no JSON, and a fault of ours", async () => {
    const app = open();
    const headers = { "content-type": "application/json" };
    const bad = await app.call("POST", "/api/detect", undefined, { raw: "{", headers });
    expect(bad).toMatchObject({ status: 400, body: { code: "INVALID_JSON" } });
    app.ctx.db.$client.run("DROP TABLE detection_accounts");
    const broken = await app.call("GET", "/v1/config");
    expect(broken).toMatchObject({ status: 500, body: { code: "INTERNAL_ERROR" } });
    expect(broken.body.error).not.toContain("no such table");
  });

  test("keys: none, an unknown one, a revoked one, one whose time is over, one of another area", async () => {
    const clock = fakeClock();
    const app = open({ clock });
    const code = async (key: string | null, headers = {}) => {
      const { status, body } = await app.call("GET", "/v1/config", undefined, { key, headers });
      return [status, body.code];
    };
    expect(await code(null)).toEqual([401, "MISSING_API_KEY"]);
    expect(await code(null, { authorization: `Bearer ${app.keyA}` })).toEqual([401, "MISSING_API_KEY"]);
    expect(await code(null, { "x-api-key": " " })).toEqual([401, "MISSING_API_KEY"]);
    expect(await code("vk_nonsense")).toEqual([401, "INVALID_API_KEY"]);
    const made = await app.call("POST", "/v1/api_keys", { name: "k" });
    expect(await code(made.body.key)).toEqual([200, undefined]);
    await app.call("DELETE", `/v1/api_keys/${made.body.id}`);
    expect(await code(made.body.key)).toEqual([401, "EXPIRED_API_KEY"]);
    const expires_at = new Date(clock.now() + 1000).toISOString();
    const brief = await app.call("POST", "/v1/api_keys", { name: "k", expires_at });
    clock.advance(2000);
    expect(await code(brief.body.key)).toEqual([401, "EXPIRED_API_KEY"]);
    expect(await code(app.keyOf("alpha", ["training"]).key)).toEqual([403, "MISSING_SCOPE"]);
    expect(await code(app.keyOf("alpha", ["detect"]).key)).toEqual([200, undefined]);
  });
});

describe("a workspace that is deleted", () => {
  test("keeps no results, no settings and no address", async () => {
    const app = open({ flags: { "network.allow": ["127.0.0.1"] }, loops: ["workspaces.purge", "detection.prune"] });
    await app.detect();
    await app.call("PUT", "/v1/config", { webhookUrl: "https://127.0.0.1:8443/" });
    await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
    const { purge } = await import("../../purge.ts");
    const { prune } = await import("./service.ts");
    await purge(app.ctx);
    await prune(app.ctx);
    const count = (sql: string) =>
      app.ctx.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${sql}`).get()?.n;
    expect(count("detections")).toBe(0);
    expect(count("detection_accounts")).toBe(0);
    expect(count("webhook_endpoints WHERE status <> 'deleted' OR secrets <> ''")).toBe(0);
  });
});
