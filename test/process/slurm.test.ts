// tier: all (a real Slurm)
/** Runs on a real Slurm with two nodes: the conformance suite from its login node, and its faults. */
import { beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { directLink } from "../../src/platform/providers/link.ts";
import { NodeProvider } from "../../src/platform/providers/node_provider.ts";
import type { Handle } from "../../src/platform/providers/protocol.ts";
import { SlurmProvider } from "../../src/platform/providers/slurm_provider.ts";
import { SlurmSettings, slurmName } from "../../src/platform/providers/slurm_text.ts";
import { Unreachable } from "../../src/platform/providers/types.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, slurm } from "../servers/servers.ts";
import {
  conforms,
  dir,
  ended,
  exitOf,
  LONG_MS,
  numbersOf,
  pidIn,
  recordsOf,
  reference,
  stateOf,
  stepsDone,
  stepsOf,
  submission,
} from "./provider_kit.ts";

const [EXECUTABLE = ""] = program();
const STEPS = 24; // enough that the run is not over before it is put back

describeWith("slurm", slurm, (server) => {
  process.env["PATH"] = `${server.bin}:${process.env["PATH"]}`;
  const root = join(dir, "cluster");
  const options = { region: "reg_test", kind: "slurm", link: directLink(dir), root, executable: EXECUTABLE };
  const providerIn = (partition: string, more: Partial<SlurmSettings> = {}) =>
    new SlurmProvider({ ...options, rateMicros: null }, SlurmSettings.parse({ partition, ...more }));
  const provider = providerIn("cpu");
  const idOf = (handle: Handle) =>
    readFileSync(join(root, "jobs", handle.job, String(handle.attempt), "submitted"), "utf8").trim();
  const queued = () => server.run("squeue", "--noheader", "--format=%j|%T").trim();

  beforeAll(async () => {
    mkdirSync(root);
    await placeExecutable(EXECUTABLE, root);
    const here = new NodeProvider({ ...options, root: join(dir, "here"), kind: "ssh", rateMicros: null });
    await placeExecutable(EXECUTABLE, join(dir, "here"));
    const handle = await here.submit(await submission(3));
    await ended(here, handle);
    reference.numbers = stepsOf(await recordsOf(here, handle)).map(numbersOf);
  }, LONG_MS);

  conforms({ provider: () => provider, root, pidOf: pidIn(root) });

  test(
    "a job that Slurm puts back into its queue resumes from the newest checkpoint, and runs no step twice at once",
    async () => {
      const handle = await provider.submit(await submission(STEPS));
      await stepsDone(provider, handle, 2);
      server.run("scontrol", "requeue", idOf(handle));
      await until("the queue", async () => ((await stateOf(provider, handle)) === "ready" ? true : undefined), LONG_MS);
      server.run("scontrol", "update", `jobid=${idOf(handle)}`, "StartTime=now");
      await ended(provider, handle);
      const records = await recordsOf(provider, handle);
      const steps = stepsOf(records).map(({ step }) => step);
      expect(new Set(steps)).toEqual(new Set(Array.from({ length: STEPS }, (_, i) => i + 1)));
      expect(steps.length).toBeLessThan(2 * STEPS); // it did not begin anew
      expect(exitOf(records)).toMatchObject({ kind: "done" });
      await provider.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "a GPU is asked for by its type, and a node without one says so",
    async () => {
      const gpu = providerIn("gpu");
      expect(await gpu.offers({ gpuType: "H200", gpuCount: 1, memoryBytes: 0 })).toHaveLength(1);
      const { inputs, plan } = await submission(3);
      const handle = await gpu.submit({ inputs, plan: { ...plan, gpus: 1, gpu_type: "H200" } });
      await ended(gpu, handle);
      expect(server.run("scontrol", "show", "job", idOf(handle))).toMatch(/TresPerNode=gres:gpu:h200:1/);
      expect(exitOf(await recordsOf(gpu, handle))?.message).toMatch(/this node shows 0 GPUs/);
      await gpu.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "a job in the queue is cancelled there, and one that others cancel ends with that reason",
    async () => {
      server.run("scontrol", "update", "partitionname=cpu", "state=down");
      const waiting = await provider.submit(await submission(3));
      expect(await stateOf(provider, waiting)).toBe("ready");
      expect(await provider.submit(await submission(3, 1, null, waiting.job))).toEqual(waiting);
      expect(queued()).toBe(`${slurmName(waiting)}|PENDING`);
      await provider.cancel(waiting, "stop");
      expect((await provider.observe([waiting]))[0]).toMatchObject({ state: "lost", lost: { kind: "stopped" } });
      const other = await provider.submit(await submission(3));
      server.run("scancel", idOf(other));
      expect((await provider.observe([other]))[0]).toMatchObject({ state: "lost", lost: { kind: "config" } });
      server.run("scontrol", "update", "partitionname=cpu", "state=up");
      for (const { job } of [waiting, other]) await provider.remove(job);
      expect(queued()).toBe("");
      expect(existsSync(join(root, "jobs", other.job))).toBe(false);
    },
    LONG_MS,
  );

  test(
    "a retry waits while an earlier submission is under way, and the cluster gets one job",
    async () => {
      const [slow, path] = [join(dir, "slow"), process.env["PATH"]];
      mkdirSync(slow);
      const script = `#!/bin/sh\nwhile [ ! -e ${slow}/go ]; do sleep 0.05; done\nexec ${server.bin}/sbatch "$@"\n`;
      writeFileSync(join(slow, "sbatch"), script, { mode: 0o755 });
      process.env["PATH"] = `${slow}:${path}`;
      const sent = await submission(3);
      const { handle } = sent.plan;
      const first = provider.submit(sent);
      const lock = join(root, "jobs", handle.job, "1/submission/server.json");
      await until("the first submission", () => existsSync(lock) || undefined, LONG_MS);
      await expect(provider.start(handle)).rejects.toThrow(/earlier submission of this attempt is still under way/);
      await expect(provider.start(handle)).rejects.toThrow(Unreachable);
      writeFileSync(join(slow, "go"), "");
      await first;
      process.env["PATH"] = path;
      await provider.start(handle);
      await ended(provider, handle);
      const names = server.run("squeue", "--noheader", "--states=all", "--format=%j").split("\n");
      expect(names.filter((name) => name === slurmName(handle))).toHaveLength(1);
      await provider.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "wrong settings and a partition without nodes are named",
    async () => {
      await expect(providerIn("none").info()).rejects.toThrow(/partition none/);
      const refused = providerIn("cpu", { account: "nobody", time_limit_minutes: 1, constraint: "fast" });
      await expect(refused.submit(await submission(1))).rejects.toThrow(/feature|constraint/i);
    },
    LONG_MS,
  );
});
