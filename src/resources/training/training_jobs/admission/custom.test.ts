/** Limits, network and variables in the request for a custom job. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { availableParallelism } from "node:os";
import { tarGz } from "../../../../../test/archives.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";

let app: JobsApp;
let custom: object;
beforeAll(async () => {
  app = await jobsApp({
    flags: { "custom_jobs.memory_mib": 1024, "custom_jobs.disk_mib": 4096, "custom_jobs.cpus": 1 },
  });
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name: "readme", content: "nothing" })], "code.tar.gz"));
  const { body } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
  custom = {
    method: "custom",
    base_model: undefined,
    reward_source: undefined,
    command: "true",
    code_artifact_id: body.id,
  };
  await app.call("PUT", "/v1/secrets/TOKEN", { value: "hunter2-hunter2" });
  await app.call("PUT", "/v1/secrets/BOUND", { value: "hunter2-hunter2", scope_host: "api.example.com" });
  for (const name of ["v", "w"]) await app.call("POST", "/v1/volumes", { name });
}, 60_000);
afterAll(() => app.close().then(app.remove));

const errorOf = async (more: object) => {
  const { status, body } = await app.post({ ...custom, ...more });
  return [status, body.error?.param ?? null, body.error?.message ?? ""];
};
const mount = (mount_path: string, more: object = {}) => ({ volumes: [{ name: "v", mount_path, ...more }] });
const twice = (first: string, second: string) => ({
  volumes: [
    { name: "v", mount_path: first },
    { name: "w", mount_path: second },
  ],
});

test.each([
  ["a secret that is not here", { secrets: ["NOPE"] }, 404, "/secrets/0", /NOPE/],
  ["a secret for one host", { secrets: ["BOUND"] }, 422, "/secrets/0", /may only be sent to api.example.com/],
  ["a volume that is not here", { volumes: [{ name: "nope", mount_path: "/data" }] }, 404, "/volumes/0/name", /nope/],
  ["a writable volume outside", mount("/data", { read_only: false }), 422, "/volumes/0/mount_path", /below .workspace/],
  ["more memory than the operator allows", { resources: { memory_mib: 1025 } }, 422, "/resources/memory_mib", /1024/],
  ["more disk", { resources: { disk_mib: 4097 } }, 422, "/resources/disk_mib", /4096 \(custom_jobs.disk_mib\)/],
  ["more processors", { resources: { cpus: 1000 } }, 422, "/resources/cpus", /at most 1/],
  ["memory of a GPU on the CPU", { resources: { gpu_memory_mib: 1 } }, 422, "/resources/gpu_memory_mib", /GPUs/],
  ["a network that is not allowed", { network: "guarded" }, 422, "/network", /custom_jobs.network = "guarded"/],
  ["the network of the host", { network: "host" }, 422, "/network", /none/],
  ["a variable of the job", { env: { VERK_OUTPUT: "/" } }, 422, "/env/VERK_OUTPUT", /set by the job/],
  [
    "a variable of the driver",
    { env: { CUDA_VISIBLE_DEVICES: "0" } },
    422,
    "/env/CUDA_VISIBLE_DEVICES",
    /another name/,
  ],
  ["a secret and a variable", { env: { TOKEN: "a" }, secrets: ["TOKEN"] }, 422, "/env/TOKEN", /secret/],
  ["two volumes at one place", twice("/workspace/a", "/workspace/a"), 422, "/volumes/1/mount_path", /another volume/],
  ["a volume inside another", twice("/workspace/a/b", "/workspace/a"), 422, "/volumes/0/mount_path", /lie inside it/],
  ["a push of its files", { hub_repo: "acme/files" }, 422, "/hub_repo", /not used by custom jobs/],
  ["a name that is none", { env: { "A B": "a" } }, 422, "/env/A B", /name/],
] as const)("%s is rejected with the field", async (_what, more, status, param, message) => {
  expect(await errorOf(more)).toEqual([status, param, expect.stringMatching(message)]);
});

test("a job without wishes has the limits of sessions, within those of the operator", async () => {
  const { body } = await app.post({ ...custom, output_name: "plain" });
  expect(body).toMatchObject({
    resources: { memory_mib: 1024, cpus: Math.min(1, availableParallelism()), disk_mib: 4096, gpu_memory_mib: null },
    network: "none",
    env: [],
    memory_bytes: 2 ** 30,
  });
  const grpo = await app.post({ output_name: "grpo" });
  expect(grpo.body).toMatchObject({ resources: null, network: null, env: [] });
});

test("a clone has the command's settings, and fields of the request win one by one", async () => {
  const volumes = [
    { name: "v", mount_path: "/workspace/v" },
    { name: "w", mount_path: "/workspace/w", read_only: true },
  ];
  const resources = { memory_mib: 128, disk_mib: 64 };
  const env = { GREETING: "hello" };
  const { body } = await app.post({ ...custom, output_name: "first", volumes, resources, env });
  const clone = async (more: object) =>
    (await app.call("POST", "/v1/training_jobs", { source_job: body.id, ...more })).body;
  expect(await clone({ output_name: "second", resources: { memory_mib: 256 } })).toMatchObject({
    resources: { memory_mib: 256, disk_mib: 64 },
    env: ["GREETING"],
    volumes: [
      { name: "v", mount_path: "/workspace/v", read_only: false },
      { name: "w", mount_path: "/workspace/w", read_only: true },
    ],
  });
  expect((await clone({ output_name: "third", env: {} })).env).toEqual([]);
  const rows = JSON.stringify(app.ctx.db.$client.query("SELECT * FROM training_jobs").all());
  expect(rows).not.toContain("hello");
});

test("volumes that do not fit into the job are rejected", async () => {
  await app.call("PUT", "/v1/volumes/w/files/large", undefined, { raw: "x".repeat(2_000_000) });
  const volumes = [{ name: "w", mount_path: "/workspace/w" }];
  const [status, param, message] = await errorOf({ volumes, resources: { disk_mib: 1 } });
  expect([status, param]).toEqual([422, "/resources/disk_mib"]);
  expect(message).toContain("raise resources.disk_mib");
});
