/** A server that trains the built-in model, and its trainer process. */
import { readdirSync, readFileSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { until } from "../harness.ts";

type Options = Parameters<typeof startBinary>[0];
type Point = { step: number; epoch: number; values: Record<string, number> };

/** The share of vowels: any text has one, so that every group has something to learn from. */
export const VOWELS = `export function reward({ completions }) {
  return completions.map((text) => (String(text).match(/[aeiou0-4]/g) ?? []).length / (1 + String(text).length));
}`;

const sum = (i: number) => ({ prompt: `What is ${i + 2} + ${3 * i + 1}?` });
const SMALL = {
  max_steps: 10,
  num_generations: 4,
  per_device_train_batch_size: 8,
  max_completion_length: 12,
  learning_rate: 1e-3,
};
const ENDED = ["completed", "failed", "cancelled"];
const TIMINGS = /^(.*_time|.*tokens_per_second|reward_latency.*|gpu_memory.*|.*_ms)$/;
const LONG_MS = 120_000;

/** The calls of a training server. `open` may give another process after a restart. */
export function trainingCalls(open: () => Awaited<ReturnType<typeof startBinary>>) {
  async function call(method: string, path: string, body?: unknown) {
    const answer = await open().call(method, `/v1${path}`, body);
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  }
  return {
    call,
    /** Uploads prompts, or other rows, and waits for the built-in model. Returns the id of the dataset. */
    async prepare(rowOf: (i: number) => object = sum, count = 24): Promise<string> {
      const rows = Array.from({ length: count }, (_, i) => JSON.stringify(rowOf(i)));
      const form = new FormData();
      form.set("name", "sums");
      form.set("file", new File([`${rows.join("\n")}\n`], "sums.jsonl"));
      const { id } = await call("POST", "/datasets", form);
      const isReady = async () => (await call("GET", "/models/verk-tiny")).status === "ready";
      await until("verk-tiny to be ready", isReady, LONG_MS);
      return id;
    },
    async create(dataset: string, seed: number, changes: object = {}): Promise<string> {
      const job = {
        base_model: "verk-tiny",
        method: "grpo",
        dataset,
        output_name: "vowels",
        seed,
        reward_source: VOWELS,
        reward_language: "javascript",
        checkpoint: { save_steps: 2, keep_last: 2 },
        hyperparameters: SMALL,
      };
      return (await call("POST", "/training_jobs", { ...job, ...changes })).id;
    },
    ended: (id: string, timeoutMs = LONG_MS) =>
      until(
        `job ${id} to end`,
        async () => {
          const job = await call("GET", `/training_jobs/${id}`);
          return ENDED.includes(job.status) ? job : undefined;
        },
        timeoutMs,
      ),
    /** Every point of the job's metrics, without what depends on time. */
    async streamOf(id: string) {
      const { data } = await call("GET", `/training_jobs/${id}/metrics?max_points=10000`);
      return (data as Point[]).map(({ step, epoch, values }) => ({
        step,
        epoch,
        values: Object.fromEntries(Object.entries(values).filter(([name]) => !TIMINGS.test(name))),
      }));
    },
    /** The trainer of this server, if there is one now. */
    trainerPid: () => trainerOf(open().pid),
  };
}

export const openTraining = async (options: Options) => {
  const server = await startBinary(options);
  return { server, ...trainingCalls(() => server) };
};

function trainerOf(server: number): number | undefined {
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const args = readFileSync(`/proc/${name}/cmdline`, "latin1").split("\0");
      const parent = Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${name}/status`, "latin1"))?.[1]);
      if (parent === server && args.includes("worker") && args.includes("trainer")) return Number(name);
    } catch {} // gone meanwhile
  }
  return undefined;
}
