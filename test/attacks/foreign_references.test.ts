import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newId } from "../../src/lib/ids.ts";
import { tarGz } from "../archives.ts";
import { type TestApp, testApp } from "../harness.ts";
import { addJob } from "../tracker_kit.ts";

setDefaultTimeout(120_000);
const MARK = "v1ctims-own-words";
let app: TestApp;
/** What workspace A has. Workspace B knows every id and name of it. */
const theirs = {
  dataset: "",
  snapshot: "",
  artifact: "",
  model: "",
  job: "",
  deployment: "",
  endpoint: "",
  key: "",
  event: "",
};
beforeAll(async () => {
  app = testApp({ flags: { "network.allow": ["127.0.0.1"], "http.rate_limit_per_second": 0 } });
  const made = async (path: string, json: unknown) => (await app.call("POST", path, json)).body.id as string;
  theirs.dataset = await made("/v1/datasets", { name: "rows", format: "prompt" });
  await app.call("POST", `/v1/datasets/${theirs.dataset}/rows`, { rows: [{ prompt: MARK }] });
  theirs.snapshot = (await app.call("POST", `/v1/datasets/${theirs.dataset}/snapshots`)).body.id;
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: MARK })]), "code.tar.gz");
  theirs.artifact = (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form })).body.id;
  theirs.model = await made("/v1/models", { name: "mine" });
  theirs.job = addJob(app);
  theirs.endpoint = await made("/v1/webhooks", { url: "https://203.0.114.7/" });
  theirs.key = await made("/v1/api_keys", { name: "k" });
  theirs.event = (await app.call("GET", "/v1/events")).body.data[0].id;
  await app.call("PUT", "/v1/secrets/TOPSECRET", { value: MARK });
  await app.call("POST", "/v1/volumes", { name: "lab" });
  await app.call("PUT", "/v1/volumes/lab/files/a.txt", undefined, { raw: MARK });
});
afterAll(() => app.close().then(app.remove));

const asB = (method: string, path: string, json?: unknown) => app.call(method, path, json, { key: app.keyB });
const job = (json: object) => ({ method: "sft", base_model: "verk-tiny", dataset: theirs.dataset, ...json });
const custom = (json: object) => ({
  method: "custom",
  code_artifact_id: theirs.artifact,
  command: "cat main.sh",
  ...json,
});
/** B's own archive, so that the reference beside it is what is judged. */
const ownArtifact = async () => {
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: "true" })]), "code.tar.gz");
  return (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form, key: app.keyB })).body.id as string;
};
const JOBS = "/v1/training_jobs";

const REFERENCES: Record<string, () => Promise<{ path: string; json: unknown }>> = {
  "dataset of a job": async () => ({ path: JOBS, json: job({}) }),
  "dataset_id of a job": async () => ({ path: JOBS, json: job({ dataset: undefined, dataset_id: theirs.dataset }) }),
  "a snapshot of a dataset": async () => ({ path: JOBS, json: job({ dataset: `${theirs.dataset}@snap-1` }) }),
  "a snapshot's id": async () => ({ path: JOBS, json: job({ dataset: theirs.snapshot }) }),
  "eval_dataset of a job": async () => ({ path: JOBS, json: job({ eval_dataset: theirs.dataset }) }),
  "base_model by id": async () => ({ path: JOBS, json: job({ base_model: theirs.model }) }),
  "base_model by name": async () => ({ path: JOBS, json: job({ base_model: "mine" }) }),
  "base_model by job": async () => ({ path: JOBS, json: job({ base_model: theirs.job }) }),
  "source_job of a job": async () => ({ path: JOBS, json: { source_job: theirs.job } }),
  "resume_from of a job": async () => ({ path: JOBS, json: job({ resume_from: newId("ckpt") }) }),
  "reward_functions of a job": async () => ({
    path: JOBS,
    json: job({ method: "grpo", reward_functions: [{ id: newId("rf") }] }),
  }),
  "code_artifact_id of a job": async () => ({ path: JOBS, json: custom({}) }),
  "secrets of a job": async () => ({
    path: JOBS,
    json: custom({ code_artifact_id: await ownArtifact(), secrets: ["TOPSECRET"] }),
  }),
  "volumes of a job": async () => ({
    path: JOBS,
    json: custom({ code_artifact_id: await ownArtifact(), volumes: [{ name: "lab", mount_path: "/workspace/v" }] }),
  }),
  "a job to validate": async () => ({ path: `${JOBS}/validate`, json: job({}) }),
  "model of a deployment, by id": async () => ({ path: "/v1/deployments", json: { model: theirs.model, name: "d" } }),
  "model of a deployment, by job": async () => ({ path: "/v1/deployments", json: { model: theirs.job, name: "d" } }),
  "model of a chat": async () => ({
    path: "/v1/chat/completions",
    json: { model: theirs.model, messages: [{ role: "user", content: "hi" }] },
  }),
  "volumes of a session": async () => ({
    path: "/v1/sessions",
    json: { volumes: [{ name: "lab", mount_path: "/workspace/v" }] },
  }),
};

describe("a body that names another workspace's object", () => {
  test.each(Object.entries(REFERENCES))("%s is refused as if it were not there", async (_what, make) => {
    const { path, json } = await make();
    const { status, body } = await asB("POST", path, json);
    if (path.endsWith("/validate")) expect(body).toMatchObject({ valid: false });
    else expect([400, 404, 422]).toContain(status);
    expect(JSON.stringify(body)).not.toContain(MARK);
  });

  test("the same bodies of workspace A name something real: most are taken further", async () => {
    const own = Object.entries(REFERENCES).filter(([what]) =>
      /^(dataset|code_artifact|volumes|secrets).* job$/.test(what),
    );
    for (const [what, make] of own) {
      const { path, json } = await make();
      const fixed = {
        ...(json as object),
        ...(what.startsWith("dataset") ? {} : { code_artifact_id: theirs.artifact }),
      };
      const { body } = await app.call("POST", `${path}/validate`, fixed);
      const named = JSON.stringify(body.errors ?? body);
      expect([what, /not found|No dataset|No secret|No volume|No code/.test(named)]).toEqual([what, false]);
    }
  });
});

describe("what is read by a cursor, a filter or a header", () => {
  test("a cursor of another workspace is not one's own", async () => {
    const lists = ["datasets", "webhooks", "api_keys", "code_artifacts", "models"] as const;
    const ids = {
      datasets: theirs.dataset,
      webhooks: theirs.endpoint,
      api_keys: theirs.key,
      code_artifacts: theirs.artifact,
      models: theirs.model,
    };
    for (const name of lists) {
      const { status, body } = await asB("GET", `/v1/${name}?after=${ids[name]}`);
      expect([name, JSON.stringify(body).includes(ids[name]) && status === 200]).toEqual([name, false]);
    }
    const events = await asB("GET", `/v1/events?after=${theirs.event}`);
    expect(JSON.stringify(events.body)).not.toContain(app.workspaceA);
  });

  test("a filter by another workspace's key or job finds nothing", async () => {
    for (const path of [`/v1/account/audit_log?key_id=${theirs.key}`, `/v1/events?types=dataset.created`])
      expect(JSON.stringify((await asB("GET", path)).body)).not.toContain(theirs.dataset);
  });

  test("an Idempotency-Key of another workspace answers nothing of that workspace", async () => {
    const headers = { "idempotency-key": "the-same" };
    const json = { name: "idem", format: "prompt" };
    const first = await app.call("POST", "/v1/datasets", json, { headers });
    const second = await app.call("POST", "/v1/datasets", json, { headers, key: app.keyB });
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body.id).not.toBe(first.body.id);
  });

  test("headers that name another workspace or key change nothing", async () => {
    for (const name of [
      "x-workspace-id",
      "x-verk-workspace",
      "x-account-id",
      "x-forwarded-user",
      "x-original-url",
      "x-http-method-override",
    ]) {
      const value = name.includes("url")
        ? "/v1/secrets/TOPSECRET"
        : name.includes("method")
          ? "DELETE"
          : app.workspaceA;
      const { body } = await app.call("GET", "/v1/account", undefined, { key: app.keyB, headers: { [name]: value } });
      expect([name, body.id]).toEqual([name, app.workspaceB]);
    }
  });
});
