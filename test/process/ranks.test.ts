// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

/** Jobs on two devices in the executable. The devices are halves of the CPU, and each rank is a process. */
const dir = tempDir();
let server: Awaited<ReturnType<typeof startBinary>>;
let dataset: string;

const env = {
  VERK_GPU__CPU_DEVICES: "2",
  VERK_TRAINING__THREADS: "1", // of each rank
  VERK_HTTP__RATE_LIMIT_PER_SECOND: "0",
};

async function call(method: string, path: string, body?: unknown) {
  const answer = await server.call(method, `/v1${path}`, body);
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
}

beforeAll(async () => {
  const { key } = await makeKey(dir);
  server = await startBinary({ dir, env, key });
  const line = (i: number) => ({
    prompt: `Count from ${i}: `,
    completion: Array.from({ length: 60 }, (_, n) => i + n).join(" "),
  });
  const form = new FormData();
  form.set("name", "counting");
  form.set(
    "file",
    new File([Array.from({ length: 16 }, (_, i) => `${JSON.stringify(line(i))}\n`).join("")], "counting.jsonl"),
  );
  dataset = (await call("POST", "/datasets", form)).id;
  await until("verk-tiny to be ready", async () => (await call("GET", "/models/verk-tiny")).status === "ready", 60_000);
}, 90_000);
afterAll(async () => {
  await server.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** A step has several micro-batches of 1,024 tokens. */
const create = async (gpu_count: number): Promise<string> =>
  (
    await call("POST", "/training_jobs", {
      base_model: "verk-tiny",
      method: "sft",
      dataset,
      output_name: "counts",
      seed: 5,
      gpu: { gpu_count },
      checkpoint: { save_steps: 1, keep_last: 2 },
      hyperparameters: { max_steps: 3, per_device_train_batch_size: 6, learning_rate: 1e-3 },
    })
  ).id;

const ended = (id: string) =>
  until(
    `job ${id} to end`,
    async () => {
      const job = await call("GET", `/training_jobs/${id}`);
      return ["completed", "failed", "cancelled"].includes(job.status) ? job : undefined;
    },
    60_000,
  );

type Point = { step: number; values: Record<string, number> };
async function resultOf(id: string) {
  const { data } = await call("GET", `/training_jobs/${id}/metrics?max_points=10000`);
  const steps = (data as Point[]).map(({ step, values: { loss, grad_norm } }) => ({ step, loss, grad_norm }));
  const weights = readFileSync(join(dir, "jobs", id, "checkpoints", "step-000003", "weights.safetensors"));
  return { steps, weights: createHash("sha256").update(weights).digest("hex") };
}

const childrenOf = (parent: number): number[] =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const args = readFileSync(`/proc/${name}/cmdline`, "latin1").split("\0");
      const isChild = Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${name}/status`, "latin1"))?.[1]) === parent;
      return isChild && args.includes("trainer") ? [Number(name)] : [];
    } catch {
      return []; // gone meanwhile
    }
  });

const isAlive = (pid: number) =>
  childrenOf(server.pid)
    .flatMap((each) => [each, ...childrenOf(each)])
    .includes(pid);

test("two ranks give the bits of one device, also after kill -9 of the second rank; no rank is left behind", async () => {
  const alone = await create(1);
  expect(await ended(alone)).toMatchObject({ status: "completed", error: null });
  const id = await create(2);
  const over = ended(id);
  await until("a step", async () => (await call("GET", `/training_jobs/${id}`)).progress?.step >= 1, 60_000);
  const [first] = childrenOf(server.pid);
  const [second] = childrenOf(first!);
  process.kill(second!, "SIGKILL");
  await until("both ranks to be gone", () => !isAlive(first!) && !isAlive(second!));
  expect(await over).toMatchObject({ status: "completed", error: null, gpu_requested: { count: 2 } });
  expect(await resultOf(id)).toEqual(await resultOf(alone));
  expect(childrenOf(server.pid)).toEqual([]);
  const { body } = await server.call("GET", "/v1/gpu");
  expect(body.data.map((each: { leases: unknown[] }) => each.leases)).toEqual([[], []]);
}, 120_000);

test("more devices than the machine has are refused with their number", async () => {
  const { status, body } = await server.call("POST", "/v1/training_jobs", {
    base_model: "verk-tiny",
    method: "sft",
    dataset,
    gpu: { gpu_count: 3 },
  });
  expect([status, body.error.param]).toEqual([422, "/gpu/gpu_count"]);
  expect(body.error.message).toContain("has 2 of type cpu, not 3");
});
