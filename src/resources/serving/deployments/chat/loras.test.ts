import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type DeployingApp, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { jobFile } from "../../../../../test/foreign_paths.ts";
import { until } from "../../../../../test/harness.ts";
import { makeAdapter } from "../../../../../test/models.ts";
import { newId } from "../../../../lib/ids.ts";
import * as modelResults from "../../models/results.ts";
import * as models from "../../models/service.ts";

setDefaultTimeout(120_000); // each starts processes
const { open: app, closeAll } = manyDeploying();
afterEach(closeAll);

/** Adapters of the model `random` in the first workspace, and the deployment `random`. */
async function served(given = {}): Promise<{ on: DeployingApp; id: string }> {
  const on = await app(given);
  const dir = join(on.dir, "jobs");
  mkdirSync(dir, { recursive: true });
  const base = models.mustGet(on.ctx, on.workspaceA, "random");
  for (const [i, name] of ["poet", "clerk"].entries())
    await modelResults.registerResult(on.ctx, {
      workspaceId: on.workspaceA,
      jobId: newId("job", i + 1),
      checkpointId: newId("ckpt", i + 1),
      step: 1,
      variant: "adapter",
      name,
      baseModelId: base.id,
      file: jobFile(on.dir, makeAdapter(dir, { arch: "llama", type: "F32", adapterSeed: i + 1 })),
    });
  const id = await on.deploy({ model: "random", name: "random" });
  await on.reaches(id, "serving");
  return { on, id };
}

const chat = (on: DeployingApp, model: string, more = {}) =>
  on.call("POST", "/v1/chat/completions", { model, messages: [{ role: "user", content: "hi" }], ...more });
const said = async (on: DeployingApp, model: string, more = {}) =>
  (await chat(on, model, more)).body.choices[0].message.content;
const leases = async (on: DeployingApp): Promise<number[]> =>
  (await on.call("GET", "/v1/gpu")).body.data[0].leases.map(({ bytes }: { bytes: number }) => bytes);
const bytesOf = (on: DeployingApp, name: string) =>
  models.mustGet(on.ctx, on.workspaceA, name).shape?.weight_bytes as number;

test("a request chooses an adapter by the model or by lora, in the process that runs, and its memory is counted", async () => {
  const { on, id } = await served();
  const [model] = await leases(on);
  expect(await Promise.all(["random", "random:poet", "random:clerk"].map((name) => said(on, name)))).toEqual([
    "w0 w1 w2 ",
    "a0 a1 a2 ",
    "a0 a1 a2 ",
  ]);
  expect(on.starts()).toHaveLength(1);
  const all = [model, bytesOf(on, "poet"), bytesOf(on, "clerk")] as number[];
  expect((await leases(on)).sort()).toEqual(all.sort());
  const poet = models.mustGet(on.ctx, on.workspaceA, "poet").id;
  for (const [name, lora, text] of [
    ["random", [{ id: poet }], "a0 a1 a2 "],
    ["random", [{ id: "poet", scale: 0.5 }, { id: "clerk" }], "a0 a1 a2 "],
    ["random", [{ id: "poet", scale: 0 }], "w0 w1 w2 "],
    ["random", [], "w0 w1 w2 "],
    [`${id}:poet`, undefined, "a0 a1 a2 "],
  ] as const)
    expect(await said(on, name, { lora })).toBe(text);
  expect((await leases(on)).sort()).toEqual(all.sort());
  const own = await on.call("POST", `/v1/deployments/${id}/chat/completions`, {
    model: "random:poet",
    messages: [{ role: "user", content: "hi" }],
  });
  expect(own.body).toMatchObject({ model: "random:poet", choices: [{ message: { content: "a0 a1 a2 " } }] });
  await on.call("POST", `/v1/deployments/${id}/stop`);
  await until("all memory to be free", async () => (await leases(on)).length === 0);
});

test("the models that can be used include the deployment with each of its adapters", async () => {
  const { on } = await served();
  const { body } = await on.call("GET", "/v1/models");
  const ids = body.data.map((each: { id: string }) => each.id);
  expect(ids).toEqual(["random", "random:clerk", "random:poet"]);
  const page = await on.call("GET", "/v1/models?after=random:poet");
  expect(page.body.data).toEqual([]);
  expect((await on.call("GET", "/v1/models/random:poet")).body).toMatchObject({ id: "random:poet", object: "model" });
  expect((await on.call("GET", "/v1/models/random:nobody")).status).toBe(404);
});

test("an adapter that is unknown, foreign or of another model is not found", async () => {
  const { on } = await served();
  const message = async (model: string, more = {}) => {
    const { status, body } = await chat(on, model, more);
    return [status, body.error.param, body.error.message];
  };
  const text = (name: string, field: string) =>
    `${field}: the deployment random has no adapter named "${name}". It has: clerk, poet`;
  expect(await message("random:nobody")).toEqual([404, "/model", text("nobody", "model")]);
  expect(await message("random:random")).toEqual([404, "/model", text("random", "model")]);
  expect(await message("random", { lora: [{ id: "poet" }, { id: "x" }] })).toEqual([
    404,
    "/lora/1/id",
    text("x", "lora/1/id"),
  ]);
  const foreign = await on.call(
    "POST",
    "/v1/chat/completions",
    { model: "random:poet", messages: [{ role: "user", content: "x" }] },
    { key: on.keyB },
  );
  expect(foreign.status).toBe(404);
});

test("a file that is no adapter of the model fails its own requests only", async () => {
  const { on } = await served({ lives: [{ refuses: ".gguf" }] });
  const [model] = await leases(on);
  const { status, body } = await chat(on, "random:poet");
  expect([status, body.error.message]).toEqual([400, expect.stringContaining("The adapter cannot be used")]);
  expect(body.error.message).not.toContain(on.dir);
  expect(await said(on, "random")).toBe("w0 w1 w2 ");
  expect(await leases(on)).toEqual([model] as number[]);
});
