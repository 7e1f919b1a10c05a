// tier: all (whole paths on the executable)
/** A job of the API on a node behind a real sshd, from the registration of the region to the model. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { observe } from "../../src/resources/machines/regions/observe.ts";
import { syncRemote } from "../../src/resources/training/training_jobs/remote/sync.ts";
import { reconcile } from "../../src/resources/training/training_jobs/running/reconcile.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { type JobsApp, jobsApp, SCORES } from "../jobs_kit.ts";
import { placeExecutable } from "../node_executable.ts";
import { cutLink } from "../servers/cut.ts";
import { describeWith, sshd } from "../servers/servers.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 120_000;
const STEPS = 8;

describeWith("a region over ssh", sshd, (server) => {
  let app: JobsApp;
  beforeAll(async () => {
    app = await jobsApp({ flags: { "network.allow": ["127.0.0.1"], "sandbox.require": "language" } });
    app.ctx.state.regions.executable = EXECUTABLE;
    await placeExecutable(EXECUTABLE, join(server.home, "remote jobs"));
  }, LONG_MS);
  afterAll(() => app.close().then(app.remove));

  test(
    "its host key is pinned, a job completes there, and nothing is left behind",
    async () => {
      const { publicKey: public_key, privateKey: private_key } = server;
      const key = await app.call("POST", "/v1/ssh_keys", { name: "node", public_key, private_key });
      const made = await app.call("POST", "/v1/regions", {
        name: "node",
        kind: "ssh",
        address: "127.0.0.1",
        port: server.port,
        user: server.user,
        ssh_key_id: key.body.id,
        work_dir: "remote jobs",
      });
      expect([made.status, made.body.ssh?.host_key]).toEqual([201, server.hostKey.split(" ").slice(0, 2).join(" ")]);
      const region = made.body.id as string;
      observe(app.ctx);
      await app.ctx.state.regions.asking.get(region);
      expect((await app.call("GET", `/v1/regions/${region}`)).body).toMatchObject({ available: true, reason: null });
      const hyperparameters = {
        max_steps: 2,
        num_generations: 2,
        per_device_train_batch_size: 2,
        max_completion_length: 4,
      };
      const job = await app.post({ provider: "ssh", reward_source: SCORES, hyperparameters });
      expect([job.status, job.body.region]).toEqual([201, region]);
      const id = job.body.id as string;
      const read = async () => (await app.call("GET", `/v1/training_jobs/${id}`)).body;
      const ended = await until(
        "the job to end",
        async () => {
          await reconcile(app.ctx);
          syncRemote(app.ctx);
          const body = await read();
          return body.completed_at === null ? undefined : body;
        },
        LONG_MS,
      );
      expect([ended.status, ended.error]).toEqual(["completed", null]);
      const isRemoved = () => !existsSync(join(server.home, "remote jobs", "jobs", id));
      await until(
        "the files to be removed",
        () => {
          syncRemote(app.ctx);
          return isRemoved() || undefined;
        },
        LONG_MS,
      );
      await Promise.all(app.ctx.state.trainingJobs.syncing.values());
      expect(readdirSync(join(app.dir, "node-keys"))).toEqual([]);
    },
    LONG_MS,
  );

  test(
    "a job goes on at its node while the link is cut, and the server gets every step of it once",
    async () => {
      await using link = await cutLink(server.port);
      const { publicKey: public_key, privateKey: private_key } = server;
      const key = await app.call("POST", "/v1/ssh_keys", { name: "cut", public_key, private_key });
      const made = await app.call("POST", "/v1/regions", {
        name: "cut",
        kind: "ssh",
        address: "127.0.0.1",
        port: link.port,
        user: server.user,
        ssh_key_id: key.body.id,
        work_dir: "remote jobs",
      });
      const region = made.body.id as string;
      const observed = async () => {
        app.ctx.state.regions.askedAt.clear(); // it may be asked again at once
        observe(app.ctx);
        await app.ctx.state.regions.asking.get(region);
        return (await app.call("GET", `/v1/regions/${region}`)).body;
      };
      const isAvailable = async () => (await observed()).available || undefined;
      await until("the region", isAvailable, LONG_MS);
      const hyperparameters = {
        max_steps: STEPS,
        num_generations: 2,
        per_device_train_batch_size: 2,
        max_completion_length: 4,
      };
      const job = await app.post({ provider: "ssh", region, reward_source: SCORES, hyperparameters });
      const id = job.body.id as string;
      const turn = async () => {
        await reconcile(app.ctx);
        syncRemote(app.ctx);
        await Promise.all(app.ctx.state.trainingJobs.syncing.values());
        return (await app.call("GET", `/v1/training_jobs/${id}`)).body;
      };
      const records = join(server.home, "remote jobs", "jobs", id, "1", "records.ndjson");
      await until(
        "the run at the node",
        async () => {
          await turn();
          return existsSync(records) || undefined;
        },
        LONG_MS,
      );
      link.cut();
      await until("the end at the node", () => readFileSync(records, "utf8").includes('"exit":') || undefined, LONG_MS);
      const alone = await turn();
      expect([alone.completed_at, alone.error]).toEqual([null, null]);
      const { reason } = await until("its loss", async () => {
        const body = await observed();
        return body.available ? undefined : body;
      });
      expect(reason).toEqual(expect.any(String));
      link.join();
      await until("the region again", isAvailable, LONG_MS);
      const isOver = async () => {
        const body = await turn();
        return body.completed_at === null ? undefined : body;
      };
      const over = await until("the job to end", isOver, LONG_MS);
      expect([over.status, over.error]).toEqual(["completed", null]);
      const { data } = (await app.call("GET", `/v1/training_jobs/${id}/metrics?max_points=1000`)).body;
      const steps = (data as { step: number }[]).map(({ step }) => step);
      expect(steps).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
      const { data: events } = (await app.call("GET", `/v1/training_jobs/${id}/events?limit=100`)).body;
      expect((events as { type: string }[]).map(({ type }) => type)).not.toContain("job.requeued");
    },
    2 * LONG_MS,
  );
});
