/** The limits of a custom job in a region: on admission, and in the plan of its node. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { tarGz } from "../../../../../test/archives.ts";
import { fakeNode, INFO } from "../../../../../test/fake_node.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { SlurmSettings } from "../../../../platform/providers/slurm_text.ts";
import { stagingDir } from "../../../../platform/providers/staging.ts";
import { currentJob } from "../state/rows.ts";
import { submissionOf } from "./submission.ts";

let app: JobsApp;
let code: string;
beforeAll(async () => {
  app = await jobsApp({ flags: { "training.max_runtime_minutes": 600 } });
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name: "readme", content: "nothing" })], "code.tar.gz"));
  code = (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form })).body.id;
}, 60_000);
afterAll(() => app.close().then(app.remove));

const post = (region: string, more: object) =>
  app.post({
    method: "custom",
    base_model: undefined,
    reward_source: undefined,
    command: "true",
    code_artifact_id: code,
    region,
    output_name: crypto.randomUUID(),
    ...more,
  });

async function planOf(id: string) {
  const job = currentJob(app.ctx.db, id);
  if (!job) throw new Error(`no job ${id}`);
  const { plan } = await submissionOf(app.ctx, job, { job: id, attempt: 1 });
  rmSync(stagingDir(app.dir, id), { recursive: true, force: true });
  return plan;
}

test("a custom job takes memory, processors and time to its node, and the rest from its region", async () => {
  const slurm = SlurmSettings.parse({ cpus: 3, memory_mib: 2000 });
  const { region } = fakeNode(app, { kind: "slurm", slurm });
  const resources = { memory_mib: 1488, cpus: 3, disk_mib: 2048 };
  const { status, body } = await post(region, { resources, max_runtime_minutes: 30 });
  expect([status, body.error ?? null]).toEqual([201, null]);
  expect(await planOf(body.id)).toMatchObject({
    custom: { resources, limits: { wallMs: 30 * 60_000 } },
    minutes: 30 + 10 + 2,
  });
  const refusals = async (more: object) => {
    const { error } = (await post(region, { resources: more })).body;
    return [error.param, error.message];
  };
  expect(await refusals({ memory_mib: 1489 })).toEqual([
    "/resources/memory_mib",
    expect.stringContaining("must be at most 1488"),
  ]);
  expect(await refusals({ cpus: 4 })).toEqual([
    "/resources/cpus",
    expect.stringContaining("must be at most 3, which a job of the region can have"),
  ]);
  const plain = (await post(region, {})).body;
  expect(plain.resources).toMatchObject({ memory_mib: Math.min(1488, app.ctx.config.sessions.memory_mib), cpus: null });
  expect((await planOf(plain.id)).custom?.limits.wallMs).toBe(600 * 60_000);
});

test("the hardware of a machine over ssh is the limit of a job there, also beside its cards", async () => {
  const gpus = [{ type: "H200", memory_bytes: 2 ** 37 }];
  const { region } = fakeNode(app, { info: { ...INFO, gpus, memory_bytes: 2 ** 30 } });
  const gpu = { gpu_type: "H200", gpu_count: 1 };
  const errorOf = async (resources: object) => (await post(region, { gpu, resources })).body.error?.message ?? null;
  expect(await errorOf({ memory_mib: 1025 })).toContain("must be at most 1024");
  expect(await errorOf({ memory_mib: 512, cpus: 5 })).toContain(
    "must be at most 4, which a job of the region can have",
  );
  expect(await errorOf({ memory_mib: 1024, cpus: 4 })).toBeNull();
});

test("a training with a limit of its own takes it to its node", async () => {
  const { region } = fakeNode(app);
  const limited = await app.job({ region, output_name: "limited", max_runtime_minutes: 30 });
  expect((await planOf(limited)).minutes).toBe(40);
  const plain = await app.job({ region, output_name: "plain" });
  expect(await planOf(plain)).not.toHaveProperty("minutes");
});
