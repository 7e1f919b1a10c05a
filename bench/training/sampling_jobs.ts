/**
 * Shows which jobs of GRPO sample exactly on this machine. Jobs with different values of `exact_sampling` and lengths of
 * answers are sent to a server, which starts the trainer as for any job. Prints the line of the job's log about sampling, and
 * how far the log-probabilities of sampler and trainer are apart in each step. VERK_BINARY names an executable with CUDA.
 * `bun bench/training/sampling_jobs.ts [--shape 0.5B|small] [--jobs null/256,false/256,true/128,null/128,null/512]`
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { HALF_BILLION, SMALL, writeRolloutModel } from "../peers/rollout_model.ts";
import { makeKey, remove, startVerk, tempDir } from "../tools.ts";

const gpu = Bun.which("nvidia-smi") !== null;
const { values } = parseArgs({
  options: {
    shape: { type: "string", default: gpu ? "0.5B" : "small" },
    jobs: { type: "string", default: "null/256,false/256,true/128,null/128,null/512" },
  },
});
const STEPS = 3;
const [PROMPTS, GROUP, PROMPT] = gpu ? [4, 8, 100] : [1, 2, 9]; // PROMPT: letters, which are tokens to this model
const WAIT_MS = 120_000;
const DIFFERENCE = "sampling/sampling_logp_difference";
const RATIO = "sampling/importance_sampling_ratio";

const REWARD = `export function reward({ completions }) {
  return completions.map((text) => (String(text).length % 17) / 17);
}`;

type Job = { id: string; status: string; queue_reason: string | null; error: { message: string } | null };
type Ended = Job & { hyperparameters: Record<string, unknown>; gpu: { type: string } | null };
type Points = { data: { step: number; values: Record<string, number> }[] };

const dir = tempDir();
mkdirSync(join(dir, "models"));
await writeRolloutModel(join(dir, "models", "bench.gguf"), values.shape === "0.5B" ? HALF_BILLION : SMALL, "BF16");
const verk = await startVerk(dir);
let isComplete = true;
try {
  const authorization = `Bearer ${await makeKey(dir, "*")}`;
  const ask = async (method: string, path: string, body?: unknown) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = { authorization, "content-type": "application/json" };
    const response = await fetch(`${verk.url}/v1${path}`, { method, headers, ...sent });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  };
  const call = async <T>(method: string, path: string, body?: unknown) =>
    (await (await ask(method, path, body)).json()) as T;
  const until = async <T>(get: () => Promise<T>, holds: (found: T) => boolean): Promise<T> => {
    for (const end = performance.now() + WAIT_MS; ; await Bun.sleep(50)) {
      const found = await get();
      if (holds(found)) return found;
      if (performance.now() > end) throw new Error(`waited too long: ${JSON.stringify(found)}`);
    }
  };
  type Models = { data: { name: string; status: string }[] };
  await until(
    () => call<Models>("GET", "/models?registry=true"),
    ({ data }) => data.some(({ name, status }) => name === "bench" && status === "ready"),
  );
  const { id: dataset } = await call<{ id: string }>("POST", "/datasets", { name: "letters", format: "prompt" });
  const letter = (p: number, i: number) => String.fromCharCode(99 + ((p * 7 + i * (1 + p)) % 24));
  const rows = Array.from({ length: PROMPTS }, (_, p) => ({
    prompt: Array.from({ length: PROMPT }, (_, i) => letter(p, i)).join(""),
  }));
  await call("POST", `/datasets/${dataset}/rows`, { rows });

  for (const named of values.jobs.split(",")) {
    const [wanted = "null", length = "256"] = named.split("/");
    const begun = performance.now();
    const hyperparameters = {
      exact_sampling: JSON.parse(wanted),
      max_completion_length: Number(length),
      max_steps: STEPS,
      num_generations: GROUP,
      per_device_train_batch_size: PROMPTS * GROUP,
    };
    const job = await call<Job>("POST", "/training_jobs", {
      base_model: "bench",
      method: "grpo",
      dataset,
      hyperparameters,
      output_name: `of-${named.replace("/", "-")}`,
      reward_source: REWARD,
      reward_language: "javascript",
    });
    const ended = await until(
      () => call<Ended>("GET", `/training_jobs/${job.id}`),
      ({ status }) => ["completed", "failed", "cancelled"].includes(status),
    );
    isComplete &&= ended.status === "completed";
    const log = await (await ask("GET", `/training_jobs/${job.id}/logs/full`)).text();
    const line = log.split("\n").find((each) => /exact sampling|not exact/.test(each)) ?? "no line about sampling";
    const { data } = await call<Points>("GET", `/training_jobs/${job.id}/metrics?max_points=100`);
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    const { exact_sampling, importance_sampling_correction } = ended.hyperparameters;
    console.log(
      `exact_sampling ${exact_sampling}, max_completion_length ${length}, on ${ended.gpu?.type}: ${ended.status} in ${seconds} s`,
    );
    console.log(`  ${line.trim()}`);
    console.log(`  importance_sampling_correction as asked: ${importance_sampling_correction}`);
    for (const { step, values: at } of data) {
      const shown = (name: string, parts: string[]) =>
        parts.map((part) => `${part} ${at[`${name}/${part}`]}`).join(", ");
      const answers = `answers of ${at["completions/mean_length"]} tokens in the mean, rollouts ${at["rollout_time"]?.toFixed(3)} of ${at["step_time"]?.toFixed(3)} s`;
      console.log(
        `  step ${step}: ${DIFFERENCE} ${shown(DIFFERENCE, ["mean", "max"])}; ratio ${shown(RATIO, ["min", "max"])}; ${answers}`,
      );
    }
    if (ended.error) console.log(`  ${ended.error.message}\n${log.split("\n").slice(-15).join("\n")}`);
  }
} finally {
  await verk.stop();
  remove(dir);
}
process.exit(isComplete ? 0 : 1);
