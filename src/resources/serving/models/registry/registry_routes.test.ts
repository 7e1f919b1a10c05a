import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type TestApp, tempDir, testApp, until } from "../../../../../test/harness.ts";
import { makeModel } from "../../../../../test/models.ts";
import { SPEEDS_FILE } from "../../../../lib/serving/measured_speed.ts";
import { usedBytes } from "../../../data/storage_usage/service.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { decoderFor } from "../../deployments/fleet/decoder_choice.ts";
import * as models from "../service.ts";

const GGUF = makeModel(tempDir(), { arch: "llama", type: "F16", width: 64 });
const LOOPS = ["models.quantize", "models.scan"] as const;
let app: TestApp;
beforeAll(() => {
  app = testApp({ parts: ["models"], loops: LOOPS });
});
afterAll(() => app.close().then(app.remove));

/** An uploaded model, ready. */
async function upload(name: string, extra: object = {}, file = GGUF, of = app): Promise<string> {
  const { body } = await of.call("POST", "/v1/models", { name, ...extra });
  const presigned = await of.call("POST", `/v1/models/${body.id}/presigned-upload`, { files: [{ path: "m.gguf" }] });
  const { pathname, search } = new URL(presigned.body.files[0].url);
  await of.call("PUT", pathname + search, undefined, { raw: Bun.file(file) });
  expect((await of.call("POST", `/v1/models/${body.id}/complete`)).status).toBe(200);
  return body.id;
}

const get = async (id: string, of = app) => (await of.call("GET", `/v1/models/${encodeURIComponent(id)}`)).body;
const ended = (id: string, of = app) =>
  until("the copy", async () => {
    const model = await get(id, of);
    return model.status === "pending" ? undefined : model;
  });
const usage = () => usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "models" });

test("a quantized copy is a model of its own, with its bytes counted and its base named", async () => {
  const id = await upload("plain");
  const before = usage();
  const first = await app.call("POST", "/v1/models/plain/quantize", { quantization: "Q8_0" });
  expect(first).toMatchObject({
    status: 202,
    body: { name: "plain-q8_0", status: "pending", source: "quantized", base_model: "plain", base_model_id: id },
  });
  const copy = await ended(first.body.id);
  expect(copy).toMatchObject({ status: "ready", quantization: "Q8_0", architecture: "llama", error: null });
  expect(copy.sha256).toMatch(/^[0-9a-f]{64}$/);
  const plain = await get("plain");
  expect(copy.size_bytes).toBeLessThan(plain.size_bytes * 0.7);
  expect(usage()).toBe(before + copy.size_bytes);
  const left = () => readdirSync(join(app.dir, "models/.converting")).length;
  await until("the working folder to be removed", () => left() === 0);
  const again = await app.call("POST", "/v1/models/plain/quantize", { quantization: "Q8_0" });
  expect(again).toMatchObject({ status: 200, body: { id: copy.id } });
  const refused = await app.call("POST", `/v1/models/${copy.id}/quantize`, { quantization: "Q4_K_M" });
  expect(refused).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
  const foreign = await app.call("POST", `/v1/models/${id}/quantize`, { quantization: "Q8_0" }, { key: app.keyB });
  expect(foreign.status).toBe(404);
  const deleted = await app.call("DELETE", `/v1/models/${copy.id}`);
  expect(deleted.status).toBe(200);
  expect(usage()).toBe(before);
});

test("a copy that does not fit into the quota fails, and leaves no file", async () => {
  const small = testApp({ loops: LOOPS, flags: { "quotas.model_bytes": Bun.file(GGUF).size + 40_000 } });
  await upload("plain", {}, GGUF, small);
  const { body } = await small.call("POST", "/v1/models/plain/quantize", { quantization: "Q8_0" });
  const copy = await ended(body.id, small);
  expect(copy).toMatchObject({ status: "failed", size_bytes: null });
  expect(copy.error).toContain("quotas");
  await until("the working folder", () => readdirSync(join(small.dir, "models/.converting")).length === 0);
  expect(existsSync(join(small.dir, "models/.results", `${copy.id}.gguf`))).toBe(false);
  await small.close();
  small.remove();
});

test("a renamed model keeps its adapters, and hides no model of the installation", async () => {
  await upload("old-name");
  const lora = await app.call("POST", "/v1/models", { name: "lora", base_model: "old-name" });
  const renamed = await app.call("PATCH", "/v1/models/old-name", { name: "new-name" });
  expect(renamed).toMatchObject({ status: 200, body: { name: "new-name", status: "ready" } });
  expect((await get(lora.body.id)).base_model).toBe("new-name");
  expect((await app.call("GET", "/v1/models/old-name")).status).toBe(404);
  await until("the built-in model", async () => (await get("verk-tiny")).status === "ready");
  for (const name of ["verk-tiny", "lora"])
    expect(await app.call("PATCH", "/v1/models/new-name", { name })).toMatchObject({
      status: 400,
      body: { error: { code: "name_taken" } },
    });
  expect((await app.call("PATCH", "/v1/models/verk-tiny", { name: "mine" })).status).toBe(400);
  expect((await app.call("PATCH", "/v1/models/new-name", { name: "x" }, { key: app.keyB })).status).toBe(404);
  const { body } = await app.call("GET", "/v1/events?types=model.updated");
  expect(body.data.at(-1).data).toMatchObject({ name: "new-name" });
});

test("capabilities say how a model is served and trained, and the memory follows the context", async () => {
  const id = await upload("able");
  const { body } = await app.call("GET", `/v1/models/${id}/capabilities?context_length=64&parallel=1`);
  expect(body).toMatchObject({
    context_length: 64,
    serving: { works_as: "chat", decoder: "library", reads_images: false, on_gpus: { decoder: "library" } },
    training: { reason: null, exact_sampling: { possible: false } },
    deployments: [],
  });
  expect(body.serving.on_gpus.reason).toStartWith("Verk's kernels do not decode ");
  expect(body.training.methods).toContain("dpo");
  expect(body.quantizations).toContain("Q4_K_M");
  const { body: twice } = await app.call("GET", `/v1/models/${id}/capabilities?context_length=128&parallel=1`);
  expect(twice.memory.cache_bytes).toBe(2 * body.memory.cache_bytes);
  const { body: narrow } = await app.call(
    "GET",
    `/v1/models/${id}/capabilities?context_length=64&parallel=1&kv_type=q8_0`,
  );
  expect(narrow.memory.cache_bytes).toBe((body.memory.cache_bytes * 17) / 32);
  expect(twice.memory.weights_bytes).toBe(body.memory.weights_bytes);
  const row = models.mustGet(app.ctx, app.workspaceA, id);
  expect(body.memory.total_bytes).toBe(models.estimate(row, { contextLength: 64, parallel: 1 }).total);
});

test("auto follows what was measured with this file on such a card; a damaged file of speeds is left alone", async () => {
  const card = { index: 0, uuid: "GPU-0", name: "Card", type: "H200", memoryTotalMib: 80_000, memoryUsedMib: 0 };
  const idle = { utilizationPercent: 0, temperatureCelsius: 40, powerWatts: 100, driverVersion: "1" };
  const other = testApp({ parts: ["models"], loops: LOOPS });
  gpu.useProbe(other.ctx, async () => [{ ...card, ...idle }]);
  await gpu.devices(other.ctx);
  const id = await upload("measured", {}, GGUF, other);
  const { sha256 } = models.mustGet(other.ctx, other.workspaceA, id);
  const path = join(other.ctx.config.data_dir, SPEEDS_FILE);
  const choose = (parallel: number) => decoderFor(other.ctx, { sha256, parallel, cards: ["GPU-0"] });
  expect(await choose(8)).toBe("auto");
  const [fast, slow] = [200, 100].map((rate) => ({ prompt: 1e6, answers: [{ streams: 1, rate }] }));
  const measured = { gpu: "Card", sha256, verk: "1", measured_at: new Date().toISOString(), own: slow, library: fast };
  await Bun.write(path, JSON.stringify({ measured: [measured] }));
  expect(await choose(8)).toBe("library");
  const { body } = await other.call("GET", `/v1/models/${id}/capabilities`);
  expect(body.serving).toMatchObject({ decoder: "library", reason: "llama.cpp was measured to be faster" });
  await Bun.write(path, JSON.stringify({ measured: [{ ...measured, gpu: "Another card" }] }));
  expect(await choose(8)).toBe("auto");
  await Bun.write(path, "{");
  expect(await choose(8)).toBe("auto");
  await other.close();
  other.remove();
});

test("what depends on a model is listed, for its workspace alone, and keeps it from being deleted", async () => {
  const id = await upload("used");
  const { body: deployment } = await app.call("POST", "/v1/deployments", { model: "used", name: "serves-it" });
  const { body } = await app.call("GET", `/v1/models/${id}/dependents`);
  expect(body.dependents).toMatchObject([{ kind: "deployment", id: deployment.id, name: "serves-it" }]);
  expect((await app.call("DELETE", `/v1/models/${id}`)).body.error.message).toContain("serves-it");
  await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "tiny" });
  const list = async (key: string) =>
    (await app.call("GET", "/v1/models/verk-tiny/dependents", undefined, { key })).body.dependents.length;
  expect([await list(app.keyA), await list(app.keyB)]).toEqual([1, 0]);
});

test("a model's file is downloaded from a signed address, with ranges", async () => {
  const id = await upload("saved");
  const { body } = await app.call("GET", `/v1/models/${id}/download`);
  expect(body).toMatchObject({ file_name: "saved.gguf", size_bytes: Bun.file(GGUF).size });
  const bytes = await Bun.file(GGUF).bytes();
  const read = async (headers: Record<string, string> = {}) =>
    (await app.handle(new Request(body.url, { headers }))).bytes();
  expect(await read()).toEqual(bytes);
  expect(await read({ range: "bytes=4-99" })).toEqual(bytes.slice(4, 100));
  const other = await upload("other");
  const stolen = await app.handle(new Request(body.url.replace(id, other)));
  expect(stolen.status).toBe(403);
});
