// tier: all (a real Slurm)
/** One training on both nodes of a real Slurm: its numbers are those of one node, and a dead rank is named. */
import { beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { directLink } from "../../src/platform/providers/link.ts";
import { NodeProvider } from "../../src/platform/providers/node_provider.ts";
import { SlurmProvider } from "../../src/platform/providers/slurm_provider.ts";
import { SlurmSettings } from "../../src/platform/providers/slurm_text.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, slurm } from "../servers/servers.ts";
import {
  childrenOf,
  dir,
  ended,
  exitOf,
  LONG_MS,
  messagesOf,
  recordsOf,
  stepsDone,
  stepsOf,
  submission,
} from "./provider_kit.ts";

const [EXECUTABLE = ""] = program();
const line = (i: number) => ({ prompt: `${i}: `, completion: Array.from({ length: 12 }, (_, n) => i + n).join(" ") });
const SFT = {
  method: "sft" as const,
  rows: Array.from({ length: 12 }, (_, i) => line(i)),
  given: { per_device_train_batch_size: 6, learning_rate: 0.01 },
};

/** Micro-batches of a few tokens, so that each rank has some. */
async function training(steps: number, ranks: number, method: "sft" | "grpo") {
  const sent = await submission(steps, 1, null, undefined, method === "sft" ? SFT : undefined);
  const { plan } = sent;
  const task = { ...plan.task, ranks, plan: { ...plan.task.plan, micro_divisor: 64 } };
  return { ...sent, plan: { ...plan, task, secret: randomBytes(32).toString("hex") } };
}

/** Processes of the supervisor on the second node. */
const rankSupervisors = (job: string) =>
  readdirSync("/proc").flatMap((name) => {
    try {
      const args = readFileSync(`/proc/${name}/cmdline`, "latin1").split("\0");
      const isRank = args[1] === "node" && args[2] === "rank" && args.some((each) => each.includes(job));
      return isRank ? [Number(name)] : [];
    } catch {
      return []; // no process, or gone meanwhile
    }
  });

describeWith("slurm", slurm, (server) => {
  process.env["PATH"] = `${server.bin}:${process.env["PATH"]}`;
  const root = join(dir, "nodes");
  const options = { region: "reg_test", link: directLink(dir), root, executable: EXECUTABLE, rateMicros: null };
  const one = new NodeProvider({ ...options, kind: "ssh" });
  const both = new SlurmProvider({ ...options, kind: "slurm" }, SlurmSettings.parse({ partition: "all" }));
  beforeAll(() => placeExecutable(EXECUTABLE, root), LONG_MS);

  async function streamOf(provider: NodeProvider, ranks: number, method: "sft" | "grpo") {
    const handle = await provider.submit(await training(3, ranks, method));
    await ended(provider, handle);
    const records = await recordsOf(provider, handle);
    const queued = provider === both ? server.run("squeue", "-h", "--states=all", "--format=%j|%D") : "";
    await provider.remove(handle.job);
    expect(exitOf(records)).toMatchObject({ kind: "done" });
    const steps = stepsOf(records).map(({ step, values: { loss, grad_norm, reward } }) => ({
      step,
      loss,
      grad_norm,
      reward,
    }));
    return { steps, nodes: queued.match(new RegExp(`${handle.job}-1\\|(\\d+)`))?.[1] };
  }

  test(
    "two nodes give the numbers of one node, to the bit",
    async () => {
      const alone = await streamOf(one, 1, "sft");
      expect(alone.steps).toHaveLength(3);
      expect(await streamOf(both, 2, "sft")).toEqual({ steps: alone.steps, nodes: "2" });
      const shared = await streamOf(one, 2, "grpo"); // completions in two parts, on one machine
      expect(await streamOf(both, 2, "grpo")).toEqual({ steps: shared.steps, nodes: "2" });
    },
    2 * LONG_MS,
  );

  test.each([
    ["trainer", /^Rank 1: .*(SIGKILL|killed|signal)/i],
    ["supervisor", /^The other nodes of the run ended: /],
  ] as const)(
    "a killed %s of the second node ends the run with that reason, and nothing is left",
    async (which, reason) => {
      const handle = await both.submit(await training(50_000, 2, "sft"));
      await stepsDone(both, handle, 1);
      const [supervisor = 0] = rankSupervisors(handle.job);
      const [trainer = 0] = childrenOf(supervisor);
      process.kill(which === "trainer" ? trainer : supervisor, "SIGKILL");
      await ended(both, handle);
      const records = await recordsOf(both, handle);
      expect(exitOf(records)).toMatchObject({ kind: "crashed", killed: true, message: expect.stringMatching(reason) });
      expect(messagesOf(records).map(({ type }) => type)).not.toContain("trained");
      await until("the job to leave the queue", () => server.run("squeue", "-h").trim() === "" || undefined, LONG_MS);
      expect(rankSupervisors(handle.job)).toEqual([]);
      await both.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "more devices than the nodes have are refused",
    async () => {
      await expect(both.submit(await training(1, 3, "sft"))).rejects.toThrow(/cannot share 3 devices of type cpu/);
      expect((await both.info()).most).toEqual({ H200: 1 });
    },
    LONG_MS,
  );
});
