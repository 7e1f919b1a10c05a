import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import { type TestApp, tempDir, testApp } from "../../../../test/harness.ts";
import { makeAdapter, makeModel } from "../../../../test/models.ts";
import { write } from "../../../platform/db/db.ts";
import { chooseBase } from "./base_choice.ts";
import { baseFor, importFile, openSource } from "./files/import.ts";
import * as models from "./service.ts";

const apps: TestApp[] = [];
afterEach(async () => {
  for (const each of apps.splice(0)) await each.close().then(each.remove);
});

const dir = tempDir();
const OPTIONS = { arch: "llama", type: "F16" } as const;
async function open() {
  const app = testApp();
  apps.push(app);
  const add = (name: string, more = {}) => importFile(app.ctx, makeModel(dir, { ...OPTIONS, ...more }), name);
  const deploy = (model: string) => app.call("POST", "/v1/deployments", { model, name: model });
  return { app, add, deploy };
}

test("F26 adapter: an imported one finds the only model that fits it, and deploys", async () => {
  const { app, add, deploy } = await open();
  await add("base");
  await add("wider", { width: 128 });
  await add("other", { arch: "qwen2" });
  const adapter = await importFile(app.ctx, makeAdapter(dir, OPTIONS), "carry.adapter");
  const base = models.mustGet(app.ctx, app.workspaceA, "base");
  expect(adapter).toMatchObject({ baseModel: "base", baseModelId: base.id });
  const { body } = await app.call("GET", "/v1/models/carry.adapter");
  expect(body).toMatchObject({ type: "adapter", base_model: "base" });
  expect((await deploy("carry.adapter")).status).toBe(201);
});

test("F26 adapter: without a base the refusal says what is needed, and it works once the base is there", async () => {
  const { app, add, deploy } = await open();
  await importFile(app.ctx, makeAdapter(dir, OPTIONS), "carry.adapter");
  const alone = await deploy("carry.adapter");
  expect([alone.status, alone.body.error.message]).toEqual([
    400,
    expect.stringContaining("its base model is not on this server: pull or import the base model first"),
  ]);
  await add("base");
  expect((await deploy("carry.adapter")).status).toBe(201);
});

test("F26 adapter: if several models fit, the refusal names them, and --base decides", async () => {
  const { app, add, deploy } = await open();
  await add("one");
  await add("two");
  await add("wider", { width: 128 });
  const file = makeAdapter(dir, OPTIONS);
  await importFile(app.ctx, file, "carry.adapter");
  expect((await deploy("carry.adapter")).body.error.message).toContain("several models here fit it (one, two)");
  expect(chooseBase(app.ctx, app.workspaceA, "carry.adapter", "two").baseModel).toBe("two");
  expect((await deploy("carry.adapter")).status).toBe(201);
  expect(() => chooseBase(app.ctx, app.workspaceA, "one", "two")).toThrow("whole model");
  const { handle, shape } = await openSource(file);
  await handle.close();
  const base = (name?: string) => baseFor(app.ctx, app.workspaceA, shape, name)?.name;
  expect([base(), base("two")]).toEqual([undefined, "two"]);
  expect(() => base("wider")).toThrow("does not fit wider");
  expect(() => base("none")).toThrow("there is no model");
  const whole = await openSource(join(app.dir, "models", "one.gguf"));
  await whole.handle.close();
  expect(() => baseFor(app.ctx, app.workspaceA, whole.shape, "two")).toThrow("whole model");
});

test("a merged result and a quantized copy of the base leave the adapter its base", async () => {
  const { app, add, deploy } = await open();
  const base = await add("base");
  const { shape, path } = base;
  if (shape === null || path === null) throw new Error("the base has no file");
  for (const source of ["training_job", "quantized"] as const)
    write(app.ctx.db, (tx) => {
      const { id } = models.add(tx, { workspaceId: app.workspaceA, name: `made-by-${source}`, source }, 0);
      models.accept(tx, id, { shape, path, sizeBytes: 1, sha256: null, fileMtimeMs: 0 }, 0);
    });
  const adapter = await importFile(app.ctx, makeAdapter(dir, OPTIONS), "carry.adapter");
  expect(models.baseOf(app.ctx, app.workspaceA, adapter)?.id).toBe(base.id);
  const names = models.fittingBases(app.ctx, app.workspaceA, adapter.shape).map(({ name }) => name);
  expect(names).toEqual(["base"]);
  expect((await deploy("carry.adapter")).status).toBe(201);
});
