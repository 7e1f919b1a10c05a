// tier: all (a real Slurm)
/** Custom jobs on a real Slurm: they ask for what their jail gives to the command, and the jail gives no more. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { observe } from "../../src/resources/machines/regions/observe.ts";
import { syncRemote } from "../../src/resources/training/training_jobs/remote/sync.ts";
import { reconcile } from "../../src/resources/training/training_jobs/running/reconcile.ts";
import { tarGz } from "../archives.ts";
import { program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { type JobsApp, jobsApp } from "../jobs_kit.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, slurm } from "../servers/servers.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 120_000;
setDefaultTimeout(2 * LONG_MS);
const WAIT = "while :; do sleep 0.1; done";

describeWith("custom jobs on Slurm", slurm, (server) => {
  process.env["PATH"] = `${server.bin}:${process.env["PATH"]}`;
  const root = tempDir();
  let app: JobsApp;
  let code: string;
  const regions: Record<string, string> = {};
  beforeAll(async () => {
    const flags = { "sandbox.require": "language", "training.slurm_work_dir": root };
    app = await jobsApp({ flags });
    app.ctx.state.regions.executable = EXECUTABLE;
    const form = new FormData();
    form.append("name", "code");
    form.append("file", new File([tarGz({ name: "readme", content: "nothing" })], "code.tar.gz"));
    code = (await app.call("POST", "/v1/code_artifacts", undefined, { raw: form })).body.id;
    await app.call("PUT", "/v1/secrets/TOKEN", { value: "hunter2-hunter2" });
    for (const partition of ["cpu", "gpu"]) {
      const slurm = { partition, cpus: 2 };
      const made = await app.call("POST", "/v1/regions", { name: partition, kind: "slurm", slurm });
      regions[partition] = made.body.id;
      await placeExecutable(EXECUTABLE, join(root, made.body.id));
    }
    observe(app.ctx);
    await Promise.all(app.ctx.state.regions.asking.values());
  }, LONG_MS);
  afterAll(async () => {
    await app.close();
    app.remove();
  });

  const turn = async (id: string) => {
    await reconcile(app.ctx);
    syncRemote(app.ctx);
    await Promise.all(app.ctx.state.trainingJobs.syncing.values());
    return await app.get(id);
  };
  const reached = (id: string, is: (job: { status: string; completed_at: string | null }) => boolean) =>
    until(
      "the job to come so far",
      async () => {
        const job = await turn(id);
        return is(job) ? job : undefined;
      },
      LONG_MS,
    );
  const ended = (id: string) => reached(id, ({ completed_at: at }) => at !== null);
  async function post(partition: string, more: object): Promise<string> {
    const { status, body } = await app.call("POST", "/v1/training_jobs", {
      method: "custom",
      code_artifact_id: code,
      region: regions[partition],
      resources: { memory_mib: 128, cpus: 1, disk_mib: 64 },
      max_runtime_minutes: 30,
      output_name: crypto.randomUUID(),
      ...more,
    });
    if (status !== 201) throw new Error(JSON.stringify(body));
    return body.id;
  }
  const jobDir = (partition: string, id: string) => join(root, regions[partition] ?? "", "jobs", id);
  const attemptOf = (partition: string, id: string) => join(jobDir(partition, id), "1");
  /** Fields of `scontrol show job`. */
  const shown = async (partition: string, id: string) => {
    const path = join(attemptOf(partition, id), "submitted");
    await until("Slurm to have the job", async () => (await turn(id)) && (existsSync(path) || undefined), LONG_MS);
    const text = server.run("scontrol", "show", "job", readFileSync(path, "utf8").trim());
    return Object.fromEntries(text.split(/\s+/).map((each) => [each.split("=")[0], each.slice(each.indexOf("=") + 1)]));
  };

  test("memory, processors and time of a job are those of its Slurm job, and hold in the jail", async () => {
    const id = await post("cpu", { command: 'echo "processors: $(nproc)"' });
    expect(await shown("cpu", id)).toMatchObject({
      MinMemoryNode: "640M", // 512 of them are of the supervisor
      "CPUs/Task": "1",
      TimeLimit: "00:41:00", // ten minutes and one for the disk more than the command
    });
    const job = await ended(id);
    expect([job.status, job.error]).toEqual(["completed", null]);
    const log = await until("the log", async () => {
      await turn(id);
      const { body } = await app.call("GET", `/v1/training_jobs/${id}/logs/full?stream=all`);
      return typeof body === "string" ? body : undefined;
    });
    expect(log).toContain("processors: 1");
  });

  test("a job without processors of its own gets those of the region, and no more than the partition's time", async () => {
    server.run("scontrol", "update", "partitionname=cpu", "MaxTime=20");
    const id = await post("cpu", { command: "true", resources: { memory_mib: 64, disk_mib: 64 } });
    expect(await shown("cpu", id)).toMatchObject({
      MinMemoryNode: "576M",
      "CPUs/Task": "2",
      TimeLimit: "00:20:00",
    });
    server.run("scontrol", "update", "partitionname=cpu", "MaxTime=UNLIMITED");
    expect((await ended(id)).status).toBe("completed");
  });

  test("the cards of a job are asked for by their type", async () => {
    const id = await post("gpu", { command: "true", gpu: { gpu_type: "H200", gpu_count: 1 } });
    expect(await shown("gpu", id)).toMatchObject({ TresPerNode: "gres:gpu:h200:1", MinMemoryNode: "640M" });
    expect((await ended(id)).error.message).toContain("this node shows 0 GPUs");
  });

  test("a command that is still running at the time limit of Slurm fails the job with that reason", async () => {
    const id = await post("cpu", { command: WAIT });
    await reached(id, ({ status }) => status === "running");
    process.kill(Number(readFileSync(join(attemptOf("cpu", id), "started"), "utf8")), "SIGHUP"); // as Slurm does
    const { error } = await ended(id);
    expect([error.code, error.message]).toEqual([
      "timeout",
      expect.stringContaining("The time limit of the Slurm job came before the end of the command"),
    ]);
  });

  test("only the user of the node can read a plan with its secrets, and it is gone after the job", async () => {
    const id = await post("cpu", { command: WAIT, secrets: ["TOKEN"] });
    await reached(id, ({ status }) => status === "running");
    const modeOf = (path: string) => statSync(path).mode & 0o777;
    const dir = jobDir("cpu", id);
    expect(readFileSync(join(dir, "1/plan.json"), "utf8")).toContain("hunter2");
    expect([modeOf(join(dir, "..")), modeOf(dir), modeOf(join(dir, "1")), modeOf(join(dir, "1/plan.json"))]).toEqual([
      0o700, 0o700, 0o700, 0o600,
    ]);
    await app.call("POST", `/v1/training_jobs/${id}/cancel`);
    await ended(id);
    await until("the files to be removed", async () => (await turn(id)) && !existsSync(dir), LONG_MS);
  });
});
