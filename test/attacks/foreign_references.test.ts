import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { tarGz } from "../archives.ts";
import { type JobsApp, jobsApp, SCORES } from "../jobs_kit.ts";

setDefaultTimeout(120_000);
const MARK = "v1ctims-own-words";
const MAPS = "def resolve(row, **kwargs):\n    return row\n";
let app: JobsApp;
/** Objects of workspace A. Workspace B knows all their ids and names. */
const theirs = {
  dataset: "",
  artifact: "",
  model: "",
  reward: "",
  resolver: "",
  job: "",
  checkpoint: "",
  endpoint: "",
  key: "",
  event: "",
};
/** Objects of each workspace itself, so that only the foreign reference can be rejected. */
const own: Record<"A" | "B", { dataset: string; artifact: string }> = {
  A: { dataset: "", artifact: "" },
  B: { dataset: "", artifact: "" },
};

const keyOf = (who: "A" | "B") => (who === "A" ? app.keyA : app.keyB);
async function made(who: "A" | "B", path: string, json: unknown): Promise<string> {
  const { status, body } = await app.call("POST", path, json, { key: keyOf(who) });
  if (status >= 300) throw new Error(`${path}: ${JSON.stringify(body)}`);
  return body.id;
}
async function artifactOf(who: "A" | "B") {
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: `echo ${MARK} ${who}` })]), "code.tar.gz");
  return (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form, key: keyOf(who) })).body.id as string;
}
async function datasetOf(who: "A" | "B") {
  const id = await made(who, "/v1/datasets", { name: "rows", format: "prompt" });
  const rows = Array.from({ length: 8 }, (_, i) => ({ prompt: `${MARK} ${who} ${i}` }));
  await app.call("POST", `/v1/datasets/${id}/rows`, { rows }, { key: keyOf(who) });
  await app.call("POST", `/v1/datasets/${id}/snapshots`, undefined, { key: keyOf(who) });
  return id;
}

beforeAll(async () => {
  app = await jobsApp({ flags: { "network.allow": ["127.0.0.1"], "http.rate_limit_per_second": 0 } });
  for (const who of ["A", "B"] as const) own[who] = { dataset: await datasetOf(who), artifact: await artifactOf(who) };
  theirs.dataset = own.A.dataset;
  theirs.artifact = own.A.artifact;
  theirs.model = await made("A", "/v1/models", { name: "mine" });
  theirs.reward = await made("A", "/v1/reward_functions", { name: "theirs", source: SCORES });
  theirs.resolver = await made("A", "/v1/reward_functions", { name: "maps", source: MAPS, kind: "resolver" });
  theirs.job = await app.job(QUICK);
  theirs.checkpoint = app.checkpoint(theirs.job, 1);
  theirs.endpoint = await made("A", "/v1/webhooks", { url: "https://203.0.114.7/" });
  theirs.key = await made("A", "/v1/api_keys", { name: "k" });
  theirs.event = (await app.call("GET", "/v1/events")).body.data[0].id;
  await app.call("PUT", "/v1/secrets/TOPSECRET", { value: MARK });
  await app.call("POST", "/v1/volumes", { name: "lab" });
  await app.call("PUT", "/v1/volumes/lab/files/a.txt", undefined, { raw: MARK });
});
afterAll(() => app.close().then(app.remove));

const asB = (method: string, path: string, json?: unknown) => app.call(method, path, json, { key: app.keyB });
type Workspace = "A" | "B";
type Reference = { path: string; json: object; param: string };
const JOBS = "/v1/training_jobs";
/** The preview of a job samples little: these tests are about who may name what. */
const QUICK = { hyperparameters: { num_generations: 2, max_completion_length: 4, per_device_train_batch_size: 2 } };
const job = (who: Workspace, json: object, param: string): Reference => ({
  path: JOBS,
  param,
  json: { base_model: "random", method: "grpo", dataset: own[who].dataset, reward_source: SCORES, ...QUICK, ...json },
});
const custom = (who: Workspace, json: object, param: string): Reference => ({
  path: JOBS,
  param,
  json: { method: "custom", code_artifact_id: own[who].artifact, command: "true", ...json },
});
const deployment = (model: string): Reference => ({
  path: "/v1/deployments",
  param: "/model",
  json: { model, name: "d" },
});
const VOLUME = { name: "lab", mount_path: "/workspace/v" };

/** One reference to something of workspace A; the rest of the body is the caller's own. */
const REFERENCES: Record<string, (who: Workspace) => Reference> = {
  "dataset of a job": (who) => job(who, { dataset: theirs.dataset }, "/dataset"),
  "dataset_id of a job": (who) => job(who, { dataset: undefined, dataset_id: theirs.dataset }, "/dataset"),
  "a snapshot of a dataset": (who) => job(who, { dataset: `${theirs.dataset}@snap-1` }, "/dataset"),
  "the latest snapshot of a dataset": (who) => job(who, { dataset: `${theirs.dataset}@latest` }, "/dataset"),
  "eval_dataset of a job": (who) => job(who, { eval_dataset: theirs.dataset }, "/eval_dataset"),
  "reward_functions of a job, by id": (who) =>
    job(who, { reward_source: undefined, reward_functions: [{ id: theirs.reward }] }, "/reward_functions/0/id"),
  "reward_functions of a job, by name": (who) =>
    job(who, { reward_source: undefined, reward_functions: [{ id: "theirs" }] }, "/reward_functions/0/id"),
  "data_resolver of a job": (who) => job(who, { data_resolver: theirs.resolver }, "/data_resolver"),
  "source_job of a job": () => ({ path: JOBS, param: "/source_job", json: { source_job: theirs.job } }),
  "resume_from of a job": (who) => job(who, { resume_from: theirs.checkpoint }, "/resume_from"),
  "code_artifact_id of a job": (who) => custom(who, { code_artifact_id: theirs.artifact }, "/code_artifact_id"),
  "secrets of a job": (who) => custom(who, { secrets: ["TOPSECRET"] }, "/secrets/0"),
  "volumes of a job": (who) => custom(who, { volumes: [VOLUME] }, "/volumes/0/name"),
  "reward_functions of a run": () => ({
    path: "/v1/reward_functions/run",
    param: "/reward_functions/0/id",
    json: { rows: [{ prompt: "p", completion: "c" }], reward_functions: [{ id: theirs.reward }] },
  }),
};
/** References that A's own request also fails with, as the model has no file, but with another error. */
const KNOWN_TO_A: Record<string, (who: Workspace) => Reference> = {
  "base_model by id": (who) => job(who, { base_model: theirs.model }, "/base_model"),
  "base_model by name": (who) => job(who, { base_model: "mine" }, "/base_model"),
  "model of a deployment, by id": () => deployment(theirs.model),
  "model of a deployment, by name": () => deployment("mine"),
};

describe("a body that names another workspace's object", () => {
  test.each(Object.entries({ ...REFERENCES, ...KNOWN_TO_A }))("%s: the object is not found", async (_what, make) => {
    const { path, json, param } = make("B");
    const { status, body } = await asB("POST", path, json);
    expect([status, body.error?.code, body.error?.param]).toEqual([404, "resource_not_found", param]);
    expect(JSON.stringify(body)).not.toContain(MARK);
  });

  test.each(Object.entries(REFERENCES))("%s: its own workspace is accepted with the same body", async (_what, make) => {
    const { path, json, param } = make("A");
    const { status, body } = await app.call("POST", path === JOBS ? `${JOBS}/validate` : path, json);
    expect(status).toBeLessThan(300);
    const refused = (body.errors ?? []).map((error: { param: string }) => error.param);
    expect(refused).not.toContain(param);
  });

  test.each(Object.entries(KNOWN_TO_A))("%s: its own workspace gets the reason", async (_what, make) => {
    const { path, json } = make("A");
    const { status, body } = await app.call("POST", path, json);
    expect([status === 404, body.error?.code === "resource_not_found"]).toEqual([false, false]);
  });

  test("validation reveals no more than creation", async () => {
    const { json } = REFERENCES["dataset of a job"]!("B");
    const { body } = await asB("POST", `${JOBS}/validate`, json);
    expect(body).toMatchObject({ valid: false, errors: [{ param: "/dataset" }] });
  });

  test("a volume of a session is not found either", async () => {
    const { status, body } = await asB("POST", "/v1/sessions", { volumes: [VOLUME] });
    if (body.error?.code !== "sessions_disabled")
      expect([status, body.error?.code]).toEqual([404, "resource_not_found"]);
  });
});

describe("reading by a cursor, a filter or a header", () => {
  test("a cursor of another workspace is not valid here", async () => {
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
