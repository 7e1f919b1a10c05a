import { afterAll, beforeAll, expect, test } from "bun:test";
import { tarGz } from "../../../../../test/archives.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import type { Scope } from "../../../../context.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
  await app.call("PUT", "/v1/secrets/TOPSECRET", { value: "hunter2" });
}, 60_000);
afterAll(() => app.close().then(app.remove));

const keyWith = (...scopes: Scope[]) => app.keyOf("alpha", scopes).key;
const CUSTOM = { method: "custom", base_model: undefined, reward_source: undefined, command: "env" };
const code = async () => {
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name: "readme", content: "nothing" })], "code.tar.gz"));
  return { code_artifact_id: (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form })).body.id };
};
const post = async (key: string, more: object, path = "/v1/training_jobs") => {
  const { status, body } = await app.call("POST", path, await app.request(more), { key });
  return [status, body.error?.code ?? null, body.error?.param ?? null, body.error?.message ?? ""];
};
const REFUSED = [403, "missing_scope", "/secrets", expect.stringMatching(/^secrets: .*the scope \*, and this key has/)];

test.each([
  ["training", ["training"]],
  ["training and read, which lists the names", ["training", "read"]],
  ["everything but account and admin", ["read", "inference", "training", "detect", "metrics"]],
] as [string, Scope[]][])("L4: a key with %s cannot attach secrets, known or not", async (_what, scopes) => {
  const key = keyWith(...scopes);
  expect(await post(key, { ...CUSTOM, secrets: ["TOPSECRET"] })).toEqual(REFUSED);
  expect(await post(key, { ...CUSTOM, secrets: ["NO_SUCH"] })).toEqual(REFUSED); // does not tell which exist
  expect(await post(key, { ...CUSTOM, secrets: ["TOPSECRET"], dry_run: true })).toEqual(REFUSED);
  expect(await post(key, { ...CUSTOM, secrets: ["TOPSECRET"] }, "/v1/training_jobs/validate")).toEqual(REFUSED);
});

test("L4: a clone with another command does not inherit secrets by a key that cannot attach them", async () => {
  const { status, body } = await app.post({ ...CUSTOM, ...(await code()), secrets: ["TOPSECRET"] });
  expect(status).toBe(201);
  const key = keyWith("training");
  const clone = { ...CUSTOM, source_job: body.id, output_name: "copy" };
  expect(await post(key, clone)).toEqual(REFUSED);
  expect((await post(key, { ...clone, secrets: [] }))[0]).toBe(201);
});

test("conformance note: a custom job whose secret has a scope_host is refused at its creation", async () => {
  await app.call("PUT", "/v1/secrets/FOR_HOST", { value: "hunter2", scope_host: "api.example.com" });
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: "true" })]), "code.tar.gz");
  const { body: code } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
  const own = { ...CUSTOM, reward_source: null, dataset: undefined, code_artifact_id: code.id };
  const create = (secret: string) => post(app.keyA, { ...own, secrets: [secret] });
  const words = expect.stringContaining("api.example.com");
  expect(await create("FOR_HOST")).toEqual([422, "schema", "/secrets/0", words]);
  expect((await create("TOPSECRET"))[0]).toBe(201);
});

test("L4: ordinary keys attach secrets as before, and narrow ones make jobs without", async () => {
  const custom = { ...CUSTOM, ...(await code()), output_name: "all" };
  const all = await app.post({ ...custom, secrets: ["TOPSECRET"] }, { key: keyWith("*") });
  expect([all.status, all.body.secrets]).toEqual([201, ["TOPSECRET"]]);
  expect((await app.post({ output_name: "narrow" }, { key: keyWith("training") })).status).toBe(201);
  expect((await app.post({ output_name: "none", secrets: [] }, { key: keyWith("training") })).status).toBe(201);
});
