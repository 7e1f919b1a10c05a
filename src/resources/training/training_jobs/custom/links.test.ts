// tier: all (trains models)
/** Custom jobs that replace their directories by links, in the hope that the server reads or deletes its own files. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { jobFile, jobPaths } from "../../../../../test/foreign_paths.ts";
import { newId } from "../../../../lib/ids.ts";
import { sessionJail } from "../../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../../sandbox/jail/support.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import { sweep } from "../running/sweep.ts";
import { alignCheckpoints, removeFiles } from "../state/checkpoint_files.ts";
import type { JobRow } from "../table.ts";

setDefaultTimeout(120_000);
const support = await jailSupport(sessionJail("/tmp")).catch((error) => ({
  ok: false as const,
  reason: String(error),
}));
const jailed = test.skipIf(!support.ok); // there can be no sessions on this host, and so no custom jobs

const { app, closeAll } = manyTrainings();
afterEach(closeAll);

/** Finds the data directory as an attacker does. */
const FIND =
  "D=$(sed -n 's#.* \\(/.*\\)/jobs/job_[^ ]* /workspace .*#\\1#p' /proc/self/mountinfo); echo \"data is $D\"; ";

const custom = (on: TrainingApp, command: string, more: Partial<JobRow> = {}) =>
  on.add({ method: "custom", baseModel: null, lora: null, command, totalSteps: 0, memoryBytes: 0, ...more });
const logOf = async (on: TrainingApp, id: string) =>
  (await on.call("GET", `/v1/training_jobs/${id}/logs/full?stream=all`)).body as string;
const pathsIn = async (on: TrainingApp, name: string): Promise<string[]> =>
  (await on.call("GET", `/v1/volumes/${name}/files?limit=100`)).body.data.map(({ path }: { path: string }) => path);

async function loot(on: TrainingApp, mount_path: string) {
  await on.call("POST", "/v1/volumes", { name: "loot" });
  await on.call("PUT", "/v1/volumes/loot/files/mine.txt", undefined, { raw: "mine" });
  return [{ name: "loot", mount_path }];
}

async function tarOf(on: TrainingApp, id: string): Promise<string> {
  const { body } = await on.call("GET", `/v1/training_jobs/${id}/model`);
  const { pathname, search } = new URL(body.url);
  return (await on.call("GET", pathname + search, undefined, { key: null })).body;
}

jailed("C1: a link at output is not followed, and the job fails with a message", async () => {
  const on = await app();
  const id = custom(on, `${FIND} rm -rf output && ln -s "$D" output`);
  const job = await on.reaches(id, "failed", 60_000);
  expect(await logOf(on, id)).toContain(`data is ${on.dir}`);
  expect(job.error).toMatchObject({ code: "worker_crashed", param: "/command" });
  expect(job.error?.message).toStartWith("/workspace/output is a symbolic link, not a directory");
  expect(await logOf(on, id)).toContain("/workspace/output is a symbolic link, not a directory");
  expect((await on.call("GET", `/v1/training_jobs/${id}/model`)).status).toBe(400);
});

jailed(
  "C1: a link at the mount point of a volume brings nothing of the server into it, and deletes nothing",
  async () => {
    const on = await app();
    const volumes = await loot(on, "/workspace/v");
    const id = custom(on, `${FIND} rm -rf /workspace/v && ln -s "$D" /workspace/v`, { volumes });
    await on.reaches(id, "completed", 60_000);
    expect(existsSync(join(on.dir, "master.key"))).toBe(true);
    expect(await pathsIn(on, "loot")).toEqual(["mine.txt"]);
    const log = await logOf(on, id);
    expect(log).toContain(`data is ${on.dir}`);
    expect(log).toContain("loot was not written back: /workspace/v is a symbolic link, not a directory");
  },
);

jailed("C1: a link at a parent of the mount point is not followed either", async () => {
  const on = await app();
  const volumes = await loot(on, "/workspace/a/models");
  const id = custom(on, `${FIND} rm -rf a && ln -s "$D" a`, { volumes });
  await on.reaches(id, "completed", 60_000);
  expect(readdirSync(join(on.dir, "models"))).toContain("random.gguf");
  expect(await pathsIn(on, "loot")).toEqual(["mine.txt"]);
  expect(await logOf(on, id)).toContain("loot was not written back: /workspace/a is a symbolic link, not a directory");
});

jailed(
  "C1: a link to another directory of /workspace is not followed: the output is a directory or nothing",
  async () => {
    const on = await app();
    const id = custom(on, "mkdir real && echo x > real/x && rmdir output && ln -s real output");
    const job = await on.reaches(id, "failed", 60_000);
    expect(job.error?.message).toContain("is a symbolic link");
  },
);

jailed("C1: links, FIFOs, sockets and second names of outside files do not get into the output", async () => {
  const on = await app();
  const volumes = await loot(on, "/data/loot");
  const command = `${FIND}
    ln -s "$D/master.key" output/key; ln -s ../../../../../../etc/passwd output/passwd; mkfifo output/fifo
    ln -s "$D" output/dir
    ln /usr/bin/env output/env 2>/dev/null && echo linked a program
    ln /data/loot/mine.txt output/mine 2>/dev/null && echo linked a volume
    ln -L /proc/self/fd/9 output/nine 9< /data/loot/mine.txt 2>/dev/null && echo linked a descriptor
    mknod output/null c 1 3 2>/dev/null && echo made a device
    echo one > output/one; ln output/one output/two; exit 0`;
  const id = custom(on, command, { volumes });
  await on.reaches(id, "completed", 60_000);
  const log = await logOf(on, id);
  for (const name of ["key", "passwd", "fifo", "dir"])
    expect(log).toContain(`output/${name} was not kept: it is not a regular file`);
  expect(log).not.toContain("linked a");
  expect(log).not.toContain("made a");
  const tar = await tarOf(on, id);
  expect(tar.match(/one\n/g)).toHaveLength(2); // two names of one file are two files
  expect(tar).not.toContain("root:");
});

jailed("C1: a code artifact with files at the mount path of a volume fails the job with a message", async () => {
  const on = await app();
  const { tarGz } = await import("../../../../../test/archives.ts");
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name: "v", content: "a file" })], "code.tar.gz"));
  const { body: code } = await on.call("POST", "/v1/code_artifacts", undefined, { raw: form });
  const volumes = await loot(on, "/workspace/v");
  const job = await on.reaches(custom(on, "true", { volumes, codeArtifactId: code.id }), "failed", 60_000);
  expect(job.error).toMatchObject({ code: "provisioning_failed" });
  expect(job.error?.message).toContain("/workspace/v cannot be created");
});

test("C1: a checkpoint behind a link is neither read nor removed", async () => {
  const on = await app({ loop: false });
  const id = on.add({ status: "running" });
  const outside = join(on.dir, "outside");
  mkdirSync(join(outside, "step-000003"), { recursive: true });
  writeFileSync(join(outside, "step-000003/state.json"), '{"step":3}');
  const { dir, checkpoints } = jobPaths(on.ctx, id);
  mkdirSync(dir, { recursive: true });
  symlinkSync(outside, checkpoints);
  await expect(removeFiles(on.ctx, `jobs/${id}/checkpoints/step-000003`)).rejects.toThrow();
  await expect(alignCheckpoints(on.ctx, on.row(id))).rejects.toThrow();
  expect(readdirSync(outside)).toEqual(["step-000003"]);
});

test("C1: a state.json that is a link makes no checkpoint", async () => {
  const on = await app({ loop: false });
  const id = on.add({ status: "running" });
  const { checkpoints } = jobPaths(on.ctx, id);
  mkdirSync(join(checkpoints, "step-000003"), { recursive: true });
  writeFileSync(join(on.dir, "state.json"), '{"step":3}');
  symlinkSync(join(on.dir, "state.json"), join(checkpoints, "step-000003/state.json"));
  expect(await alignCheckpoints(on.ctx, on.row(id))).toBeUndefined();
  expect(readFileSync(join(on.dir, "state.json"), "utf8")).toBe('{"step":3}');
});

test("C1: a result that is a link to another model does not become a model", async () => {
  const on = await app({ loop: false });
  const { dir } = jobPaths(on.ctx, "job_1");
  mkdirSync(dir, { recursive: true });
  symlinkSync(join(on.dir, "adapter.gguf"), join(dir, "adapter.gguf"));
  const result = {
    workspaceId: on.workspaceA,
    jobId: newId("job", 1),
    checkpointId: newId("ckpt", 1),
    step: 1,
    variant: "adapter",
    name: "stolen",
    baseModelId: models.mustGet(on.ctx, on.workspaceA, "random").id,
    file: jobFile(on.dir, join(dir, "adapter.gguf")),
  };
  await expect(modelResults.registerResult(on.ctx, result)).rejects.toThrow("is a symbolic link");
  expect((await on.call("GET", "/v1/models/stolen")).status).toBe(404);
});

test("C1: the sweep removes a job's directory that is a link, and not what the link leads to", async () => {
  const on = await app({ loop: false });
  const outside = join(on.dir, "outside");
  mkdirSync(join(on.dir, "jobs"), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(outside, "kept"), "kept");
  const [link, tree] = [newId("job", 1), newId("job", 2)];
  symlinkSync(outside, join(on.dir, "jobs", link));
  mkdirSync(join(on.dir, "jobs", tree, "work/root"), { recursive: true });
  symlinkSync(outside, join(on.dir, "jobs", tree, "work/root/workspace"));
  await sweep(on.ctx);
  expect(readdirSync(join(on.dir, "jobs"))).toEqual([]);
  expect(readdirSync(outside)).toEqual(["kept"]);
});
