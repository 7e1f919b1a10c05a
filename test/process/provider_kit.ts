/** The conformance suite of providers: every one of them passes the same tests, over real processes. */
import { expect, test } from "bun:test";
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../../src/lib/ids.ts";
import { readOutside } from "../../src/lib/json/outside.ts";
import { isRolled, type Method } from "../../src/lib/training/fields.ts";
import { sha256File } from "../../src/platform/files.ts";
import type { NodeProvider } from "../../src/platform/providers/node_provider.ts";
import type { Handle } from "../../src/platform/providers/protocol.ts";
import { NODE_RECORD, type NodeRecord } from "../../src/resources/training/training_jobs/remote/record_form.ts";
import type { FromTrainer } from "../../src/workers/protocol_trainer.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { type Message, planOf } from "../trainer_kit.ts";

/** A meter without limits. */
const FREE = { take() {}, expect() {} };

export const dir = tempDir();
chmodSync(dir, 0o755); // root runs reward code as another user
const model = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128 });
const PROMPTS = Array.from({ length: 12 }, (_, i) => ({ prompt: String.fromCharCode(97 + i) }));
const GRPO = { num_generations: 4, per_device_train_batch_size: 8, max_completion_length: 4, learning_rate: 0.01 };
const REWARD = {
  name: "length",
  weight: 1,
  code: {
    source: "def reward(completion, **kw):\n    return float(len(completion))\n",
    language: "python",
    params: {},
    seed: 1,
  },
};
process.on("exit", () => rmSync(dir, { recursive: true, force: true })); // several files of tests share it

type Training = { method: Method; rows: Record<string, unknown>[]; given: object };
const TRAINING: Training = { method: "grpo", rows: PROMPTS, given: GRPO };

export async function submission(
  steps: number,
  attempt = 1,
  resume: string | null = null,
  job = newId("job"),
  { method, rows: given, given: more }: Training = TRAINING,
) {
  const plan = await planOf({
    dir,
    model,
    lora: { r: 4, alpha: 8 },
    context: 128,
    method,
    rows: given,
    given: { ...more, max_steps: steps },
  });
  const file = async (path: string, source: string) => ({
    path,
    source,
    sha256: await sha256File(source),
    bytes: Bun.file(source).size,
  });
  const weights = await file(`models/${await sha256File(model)}.gguf`, model);
  const rows = await file(`jobs/${job}/inputs/rows.db`, plan.rows.path);
  return {
    inputs: [weights, rows],
    plan: {
      handle: { job, attempt },
      task: {
        type: "train",
        save_steps: 1,
        save_seconds: 0,
        warm_start: null,
        samples_per_step: 2,
        ranks: 1,
        rank: 0,
        checkpoint_dir: `jobs/${job}/checkpoints`,
        resume: resume && `jobs/${job}/checkpoints/${resume}`,
        plan: { ...plan, model_path: weights.path, rows: { ...plan.rows, path: rows.path } },
      },
      gpus: 0,
      gpu_type: "cpu",
      rewards: isRolled(method) ? [REWARD] : null,
      limits: { sampleMs: 10_000, batchMs: 60_000 },
      settings: { "sandbox.require": "language" },
    },
  };
}

export async function recordsOf(provider: NodeProvider, handle: Handle): Promise<NodeRecord[]> {
  const text = new TextDecoder().decode(await provider.fetch(handle, 0));
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => readOutside(NODE_RECORD, line));
}

export const messagesOf = (records: readonly NodeRecord[]) =>
  records.flatMap((record) => ("message" in record ? [record.message as FromTrainer] : []));
export const stepsOf = (records: readonly NodeRecord[]) =>
  messagesOf(records).filter((message): message is Message<"step"> => message.type === "step");
export const exitOf = (records: readonly NodeRecord[]) => {
  const last = records.at(-1);
  return last && "exit" in last ? last.exit : undefined;
};

export const LONG_MS = 120_000;
export const stateOf = async (provider: NodeProvider, handle: Handle) => (await provider.observe([handle]))[0]?.state;
export const ended = (provider: NodeProvider, handle: Handle) =>
  until("the run to end", async () => ((await stateOf(provider, handle)) === "ended" ? true : undefined), LONG_MS);
export const stepsDone = (provider: NodeProvider, handle: Handle, count: number) =>
  until(`${count} steps`, async () => stepsOf(await recordsOf(provider, handle)).length >= count || undefined, LONG_MS);

type Setup = { provider: () => NodeProvider; root: string; pidOf: (handle: Handle) => number };

/** The numbers of a step that do not depend on time. */
export const numbersOf = ({ step, values }: Message<"step">) => ({
  step,
  loss: values["loss"],
  reward: values["reward"],
});
export const reference: { numbers: unknown[] } = { numbers: [] };

export function conforms({ provider: open, root, pidOf }: Setup) {
  test(
    "offers the devices of the node",
    async () => {
      const [offer] = await open().offers({ gpuCount: 1, memoryBytes: 1 });
      expect(offer).toMatchObject({ region: "reg_test", gpuCount: expect.any(Number), rateMicros: null });
      expect(await open().offers({ gpuType: "none", gpuCount: 1, memoryBytes: 0 })).toEqual([]);
    },
    LONG_MS,
  );

  test(
    "runs a job once to its end, with numbers that do not depend on the place",
    async () => {
      const provider = open();
      const sent = await submission(3);
      const handle = await provider.submit(sent);
      expect(await provider.submit(sent)).toEqual(handle);
      await provider.start(handle);
      await ended(provider, handle);
      const records = await recordsOf(provider, handle);
      expect(exitOf(records)).toMatchObject({ kind: "done", killed: false });
      expect(records.filter((record) => "exit" in record)).toHaveLength(1);
      const steps = stepsOf(records).map(numbersOf);
      expect(steps.map(({ step }) => step)).toEqual([1, 2, 3]);
      if (reference.numbers.length > 0) expect(steps).toEqual(reference.numbers as typeof steps);
      reference.numbers = steps;
      const half = new TextEncoder().encode(`${JSON.stringify(records[0])}\n`).length;
      const rest = new TextDecoder().decode(await provider.fetch(handle, half));
      expect(rest.split("\n").filter((line) => line !== "")).toHaveLength(records.length - 1);
      expect(await provider.checkpoints(handle, ["step-000001"])).toEqual(["step-000002", "step-000003"]);
      const into = join(dir, `${handle.job}-pulled`);
      expect(await provider.pull(handle, "step-000003", into, FREE)).toBe(true);
      expect(readdirSync(into).sort()).toContain("adapter.gguf");
      expect(await provider.pull(handle, "step-000009", join(dir, "none"), FREE)).toBe(false);
      await provider.remove(handle.job);
      expect(existsSync(join(root, "jobs", handle.job))).toBe(false);
      expect(await stateOf(provider, handle)).toBe("missing");
    },
    LONG_MS,
  );

  test(
    "saves on request; a later attempt resumes after the newest checkpoint",
    async () => {
      const provider = open();
      const handle = await provider.submit(await submission(5_000));
      await stepsDone(provider, handle, 1);
      await expect(provider.remove(handle.job)).rejects.toThrow(/still runs/);
      await provider.cancel(handle, "save");
      await ended(provider, handle);
      const first = await recordsOf(provider, handle);
      expect(messagesOf(first).map(({ type }) => type)).toContain("saved");
      const done = stepsOf(first).length;
      const newest = (await provider.checkpoints(handle, [])).at(-1) ?? "";
      expect(newest).toBe(`step-${String(done).padStart(6, "0")}`);
      const again = await provider.submit(await submission(5_000, 2, newest, handle.job));
      await stepsDone(provider, again, 1);
      await provider.cancel(again, "stop");
      await ended(provider, again);
      const second = await recordsOf(provider, again);
      expect(stepsOf(second)[0]?.step).toBe(done + 1);
      expect(exitOf(second)?.kind).toBe("stopped");
      await provider.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "a killed supervisor is seen as lost, its trainer ends, and the attempt never starts again",
    async () => {
      const provider = open();
      const handle = await provider.submit(await submission(5_000));
      await stepsDone(provider, handle, 1);
      const children = childrenOf(pidOf(handle));
      expect(children.length).toBeGreaterThan(0);
      process.kill(pidOf(handle), "SIGKILL");
      await until("its children to end", () => !children.some(isAlive) || undefined, LONG_MS);
      await until("the loss", async () => (await stateOf(provider, handle)) === "lost" || undefined, LONG_MS);
      const before = (await recordsOf(provider, handle)).length;
      await provider.start(handle);
      expect(await stateOf(provider, handle)).toBe("lost");
      expect((await recordsOf(provider, handle)).length).toBe(before);
      await provider.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "damaged files and foreign paths are refused",
    async () => {
      const provider = open();
      const sent = await submission(1);
      const [weights, rows] = sent.inputs;
      if (!weights || !rows) throw new Error("inputs");
      const wrong = { ...rows, sha256: "0".repeat(64) };
      await expect(provider.submit({ ...sent, inputs: [weights, wrong] })).rejects.toThrow(/sha256/);
      const outside = { ...rows, path: `jobs/${sent.plan.handle.job}/inputs/../../../x` };
      await expect(provider.submit({ ...sent, inputs: [outside] })).rejects.toThrow(/not a path of the work directory/);
      expect(await stateOf(provider, sent.plan.handle)).toBe("missing");
    },
    LONG_MS,
  );
}

export const childrenOf = (pid: number) =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );

/** A process that has ended may wait for its parent as a zombie. */
export function isAlive(pid: number): boolean {
  const path = `/proc/${pid}/status`;
  return existsSync(path) && !/^State:\s+Z/m.test(readFileSync(path, "utf8"));
}

export const pidIn = (root: string) => (handle: Handle) =>
  Number(readFileSync(join(root, "jobs", handle.job, String(handle.attempt), "started"), "utf8"));
