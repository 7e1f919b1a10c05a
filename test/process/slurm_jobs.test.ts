// tier: all (a real Slurm)
/**
 * The built-in model learns on a real Slurm that is reached over a real sshd, while the server is killed. Its numbers are
 * those of a run on this machine.
 */
import { afterAll, expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, slurmLogin } from "../servers/servers.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 240_000;
const REWARD = "def reward(completion, **kw):\n    return float(len(completion) % 7)\n";
const JOB = [
  "--model",
  "verk-tiny",
  "--method",
  "grpo",
  "--dataset",
  "sums.jsonl",
  "--reward",
  "right.py",
  "--seed",
  "7",
];
const SIZE = ["max_steps=3", "num_generations=4", "per_device_train_batch_size=4", "max_completion_length=4"];

describeWith("a region with Slurm", slurmLogin, ({ cluster, login }) => {
  const dir = tempDir();
  const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_SANDBOX__REQUIRE: "language" };
  const servers: Awaited<ReturnType<typeof startBinary>>[] = [];
  const start = async () => {
    const server = await startBinary({ dir, env });
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    await servers.at(-1)?.kill("SIGTERM");
    rmSync(dir, { recursive: true, force: true });
  });

  test(
    "a job completes there with the numbers of this machine, although the server is killed",
    async () => {
      let server = await start();
      writeFileSync(join(dir, "node_key"), login.privateKey, { mode: 0o600 });
      writeFileSync(join(dir, "node_key.pub"), `${login.publicKey}\n`);
      writeFileSync(join(dir, "sums.jsonl"), '{"prompt":"1+1"}\n{"prompt":"2+2"}\n{"prompt":"3+3"}\n');
      writeFileSync(join(dir, "right.py"), REWARD);
      await placeExecutable(EXECUTABLE, join(login.home, "verk"));
      const verk = async (...words: string[]) => {
        const { code, out, err } = await server.verk(words);
        if (code !== 0) throw new Error(`verk ${words.join(" ")}: ${err}`);
        return out.trim();
      };
      const host = `${login.user}@127.0.0.1:${login.port}`;
      await verk("regions", "add", "lab", "--slurm", "--host", host, "--identity", "node_key", "--partition", "cpu");
      await until(
        "the region",
        async () => /lab .* available/.test(await verk("regions", "list")) || undefined,
        LONG_MS,
      );
      const create = (region: string) =>
        verk("jobs", "create", ...JOB, ...SIZE.flatMap((pair) => ["--set", pair]), "--region", region);
      const there = await create("lab");
      const here = await create("local");
      await until("Slurm to have the job", () => cluster.run("squeue", "-h").includes("verk-") || undefined, LONG_MS);
      await server.kill("SIGKILL");
      server = await start();
      const ended = (id: string) =>
        until(
          `the end of ${id}`,
          async () => endOf((await server.call("GET", `/v1/training_jobs/${id}`)).body),
          LONG_MS,
        );
      const [far, near] = [await ended(there), await ended(here)];
      expect([far.status, far.error, far.provider]).toEqual(["completed", null, "slurm"]);
      expect(near.status).toBe("completed");
      const numbers = async (id: string) =>
        (await server.call("GET", `/v1/training_jobs/${id}/metrics`)).body.data.map(
          ({ step, values }: { step: number; values: Record<string, number> }) => [
            step,
            values["loss"],
            values["reward"],
          ],
        );
      expect(await numbers(there)).toHaveLength(3);
      expect(await numbers(there)).toEqual(await numbers(here));
      await until(
        "the files to be removed",
        () => !existsSync(join(login.home, "verk/jobs", there)) || undefined,
        LONG_MS,
      );
      expect(readdirSync(join(dir, "node-keys")).length).toBeLessThanOrEqual(2); // of a client that is under way
      expect(cluster.run("squeue", "-h")).toBe("");
    },
    LONG_MS,
  );
});

type Ended = { status: string; error: unknown; provider: string; completed_at: string | null };
const endOf = (job: Ended): Ended | undefined => (job.completed_at === null ? undefined : job);
