// tier: all (whole paths on the executable)
/** A job with `provider` = the name of a cloud: its command starts a real sshd, the job runs there, and the machine ends. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { reconcile as reconcileClouds } from "../../src/resources/machines/clouds/reconcile.ts";
import { syncRemote } from "../../src/resources/training/training_jobs/remote/sync.ts";
import { reconcile } from "../../src/resources/training/training_jobs/running/reconcile.ts";
import { program } from "../cli.ts";
import { type TestCloud, testCloud } from "../cloud_kit.ts";
import { tempDir, until } from "../harness.ts";
import { type JobsApp, jobsApp, SCORES } from "../jobs_kit.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, sshd } from "../servers/servers.ts";
import { sshdMachine } from "../servers/sshd_machine.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 180_000;
const RICH = { "billing.initial_credit_usd": 1_000_000 };

/** A process that has ended may wait for its parent as a zombie. */
function isAlive(pid: number): boolean {
  const path = `/proc/${pid}/status`;
  return existsSync(path) && !/^State:\s+Z/m.test(readFileSync(path, "utf8"));
}

describeWith("a cloud whose machines are real SSH servers", sshd, () => {
  const dir = tempDir();
  const at = join(dir, "machine");
  let app: JobsApp;
  let cloud: TestCloud;
  let home: string;
  let down = "";
  beforeAll(async () => {
    Bun.spawnSync(["chmod", "755", dir]);
    cloud = testCloud(dir, { idle_minutes: 0, rate_usd_per_hour: 3_600, work_dir: "cloud jobs" });
    const machine = sshdMachine(at);
    home = machine.home;
    cloud.set("up", machine.up);
    down = machine.down;
    cloud.set("down", down);
    app = await jobsApp({
      flags: { "network.allow": ["127.0.0.1"], "sandbox.require": "language", "clouds.files": [cloud.file], ...RICH },
    });
    app.ctx.state.regions.executable = EXECUTABLE;
    await placeExecutable(EXECUTABLE, join(home, "cloud jobs"));
  }, LONG_MS);
  afterAll(async () => {
    await app.close();
    Bun.spawnSync(["sh", "-c", down]); // the machine of the last job
    await app.remove();
  });

  const turn = async () => {
    await reconcile(app.ctx);
    reconcileClouds(app.ctx);
    syncRemote(app.ctx);
    await Promise.all(app.ctx.state.trainingJobs.syncing.values());
  };

  test(
    "a machine is made for the job, the job completes there, and the machine ends and was charged once",
    async () => {
      reconcileClouds(app.ctx);
      const hyperparameters = {
        max_steps: 2,
        num_generations: 2,
        per_device_train_batch_size: 2,
        max_completion_length: 4,
      };
      const job = await app.post({ provider: "lab", reward_source: SCORES, hyperparameters });
      expect([job.status, job.body.provider]).toEqual([201, "lab"]);
      const id = job.body.id as string;
      const read = async () => (await app.call("GET", `/v1/training_jobs/${id}`)).body;
      await turn();
      expect((await read()).queue_reason ?? "").toContain("a machine is being made");
      const ended = await until(
        "the job to end",
        async () => {
          await turn();
          const body = await read();
          return body.completed_at === null ? undefined : body;
        },
        LONG_MS,
      );
      expect([ended.status, ended.error]).toEqual(["completed", null]);
      expect(ended.cost_usd).toBeGreaterThan(0);
      expect(existsSync(join(home, "cloud jobs", "bin"))).toBe(true);
      const pid = Number(readFileSync(join(at, "pid"), "utf8"));
      await until(
        "the machine to end",
        async () => {
          await turn();
          return cloud.machines().length === 0 || undefined;
        },
        LONG_MS,
      );
      await Promise.all(app.ctx.state.clouds.tasks.values());
      await until("the SSH server to end", () => !isAlive(pid) || undefined);
      const [machine] = (await app.call("GET", "/v1/machines")).body.data;
      expect([machine.status, machine.cost_usd >= ended.cost_usd]).toEqual(["ended", true]);
      const { payment_customer_id: customer } = (await app.call("GET", "/v1/account")).body;
      const { items } = (await app.call("GET", `/v1/billing/transactions?payment_customer_id=${customer}`)).body;
      const charges = (items as { amount_usd: number; description: string }[]).filter(({ amount_usd: usd }) => usd < 0);
      expect(charges.every(({ description }) => description.startsWith("Machine verk-"))).toBe(true);
      const paid = charges.reduce((sum, { amount_usd: usd }) => sum - usd, 0);
      expect(paid).toBeCloseTo(machine.cost_usd, 5);
    },
    2 * LONG_MS,
  );

  test(
    "a job whose machine is gone goes on with the next machine",
    async () => {
      const hyperparameters = {
        max_steps: 6,
        num_generations: 2,
        per_device_train_batch_size: 2,
        max_completion_length: 4,
      };
      const job = await app.post({ provider: "lab", reward_source: SCORES, hyperparameters });
      const id = job.body.id as string;
      const read = async () => (await app.call("GET", `/v1/training_jobs/${id}`)).body;
      const records = join(home, "cloud jobs", "jobs", id, "1", "records.ndjson");
      await until(
        "the run",
        async () => {
          await turn();
          return existsSync(records) || undefined;
        },
        LONG_MS,
      );
      const [name = ""] = cloud.machines();
      process.kill(-Number(readFileSync(join(at, "pid"), "utf8")), "SIGKILL");
      await Bun.file(join(dir, "cloud/machines", name)).delete();
      await until(
        "the loss",
        async () => {
          app.ctx.state.clouds.sweeps.clear();
          await turn();
          return !cloud.calls().includes(`down ${name}`) ? undefined : true;
        },
        LONG_MS,
      );
      const ended = await until(
        "the job to end",
        async () => {
          await turn();
          const body = await read();
          return body.completed_at === null ? undefined : body;
        },
        LONG_MS,
      );
      expect([ended.status, ended.error]).toEqual(["completed", null]);
      const ups = cloud.calls().filter((call) => call.startsWith("up "));
      expect(new Set(ups).size).toBe(ups.length);
      expect(ups.at(-1)).not.toBe(`up ${name}`);
    },
    2 * LONG_MS,
  );
});
