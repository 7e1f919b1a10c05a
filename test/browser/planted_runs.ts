/** Runs of any length that no trainer made, for tests and benchmarks of the dashboard. */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { newId } from "../../src/lib/ids.ts";
import type { startBinary } from "../binary.ts";

type Server = Pick<Awaited<ReturnType<typeof startBinary>>, "dir" | "call">;
type Planted = {
  name: string;
  steps: number;
  /** A step in this many has samples; 0: none has. */
  samplesEvery?: number;
  hyperparameters?: Record<string, unknown>;
  /** The run failed with this message. */
  error?: string;
};

const REWARD = "def reward(completions, **kwargs):\n    return [1.0] * len(completions)\n";
const PROMPTS = ["What is 2 + 3?", "What is 7 + 5?", "What is 20 + 30?"];
const STEP_MS = 800;

/** Creates a GRPO job by the API and ends it. Each planted run is a copy of it, with metrics and samples of its own. */
export async function plantRuns(server: Server, runs: readonly Planted[]): Promise<string[]> {
  const { status, body, text } = await server.call("POST", "/v1/training_jobs", {
    base_model: "verk-tiny",
    method: "grpo",
    output_name: "origin",
    dataset: await rowsOf(server),
    seed: 1,
    reward_source: REWARD,
    lora: { r: 4 },
    hyperparameters: { max_steps: 1 },
  });
  if (status !== 201) throw new Error(text);
  await server.call("POST", `/v1/training_jobs/${body.id}/cancel`);
  await ended(server, body.id);
  const db = new Database(join(server.dir, "verk.db"));
  db.run("PRAGMA busy_timeout = 20000"); // the server writes too
  const ids = runs.map((run, i) => db.transaction(() => plant(db, body.id, run, i)).immediate());
  db.query("delete from training_jobs where id = ?").run(body.id);
  db.close();
  return ids;
}

function plant(db: Database, origin: string, { name, steps, samplesEvery = 0, ...more }: Planted, i: number): string {
  const row = db.query("select * from training_jobs where id = ?").get(origin) as Record<
    string,
    string | number | null
  >;
  const id = newId("job");
  const start = Number(row["created_at"]) + i;
  const given = JSON.parse(String(row["hyperparameters"])) as Record<string, unknown>;
  const planted = {
    ...row,
    id,
    output_name: name,
    step: steps,
    total_steps: steps,
    created_at: start,
    started_at: start,
    status: more.error === undefined ? "completed" : "failed",
    completed_at: start + steps * STEP_MS,
    error: more.error === undefined ? null : JSON.stringify({ code: "bad_reward", message: more.error, param: null }),
    hyperparameters: JSON.stringify({ ...given, max_steps: steps, ...more.hyperparameters }),
    latest_metrics: JSON.stringify(metricsAt(steps, steps)),
  };
  const names = Object.keys(planted);
  db.query(`insert into training_jobs (${names.join()}) values (${names.map(() => "?").join()})`).run(
    ...Object.values(planted),
  );
  const metric = db.query('insert into training_metrics (job_id, step, epoch, time, "values") values (?, ?, ?, ?, ?)');
  for (let step = 1; step <= steps; step++)
    metric.run(id, step, step / steps, start + step * STEP_MS, JSON.stringify(metricsAt(step, steps)));
  if (samplesEvery > 0) for (let step = 1; step <= steps; step += samplesEvery) plantSamples(db, id, step);
  return id;
}

async function ended(server: Server, id: string) {
  while ((await server.call("GET", `/v1/training_jobs/${id}`)).body.status !== "cancelled") await Bun.sleep(20);
}

async function rowsOf(server: Server): Promise<string> {
  const { body } = await server.call("POST", "/v1/datasets", { name: `sums-${crypto.randomUUID()}`, format: "prompt" });
  await server.call("POST", `/v1/datasets/${body.id}/rows`, { rows: PROMPTS.map((prompt) => ({ prompt })) });
  return body.id;
}

function plantSamples(db: Database, id: string, step: number) {
  const insert = db.query(
    `insert or replace into training_samples
     (job_id, step, number, prompt, completion, reward, sub_rewards, advantage, tokens, truncated, error)
     values (?, ?, ?, ?, ?, ?, '{}', ?, 6, 0, null)`,
  );
  const prompt = JSON.stringify(PROMPTS[step % PROMPTS.length]);
  for (let i = 0; i < 4; i++) insert.run(id, step, i, prompt, `answer ${i} of step ${step}`, i / 4, i - 1.5);
}

/** The metrics that a GRPO run on a GPU reports, with noise that is the same in every call. */
function metricsAt(step: number, steps: number): Record<string, number> {
  const done = step / steps;
  const noise = (n: number) => ((Math.sin(step * 12.9898 + n * 78.233) * 43758.5453) % 1) / 2;
  const near = (value: number, n: number) => value * (1 + 0.2 * noise(n));
  const reward = Math.min(1, Math.max(0, 0.1 + 0.8 * done + 0.15 * noise(0)));
  return {
    reward,
    reward_std: near(0.3 - 0.2 * done, 1),
    frac_reward_zero_std: Math.abs(noise(2)),
    ...(step % Math.ceil(steps / 10) === 0 ? { eval_reward: reward } : {}),
    "rewards/correct/mean": reward,
    "rewards/format/mean": near(0.8, 3),
    kl: near(0.05 * done, 4),
    loss: near(0.4 - 0.3 * done, 5),
    learning_rate: 1e-4 * (1 - done),
    grad_norm: near(0.6, 6),
    entropy: near(1.2 - done, 7),
    num_tokens: step * 900,
    tokens_per_second: near(1_100, 8),
    "clip_ratio/region_mean": near(0.02, 9),
    "clip_ratio/high_mean": near(0.01, 10),
    "clip_ratio/low_mean": near(0.01, 11),
    "clip_ratio/low_min": 0,
    "clip_ratio/high_max": near(0.03, 12),
    "sampling/importance_sampling_ratio/mean": near(1, 13),
    "sampling/importance_sampling_ratio/min": near(0.8, 14),
    "sampling/importance_sampling_ratio/max": near(1.2, 15),
    "completions/mean_length": near(40, 16),
    "completions/min_length": near(10, 17),
    "completions/max_length": near(80, 18),
    "completions/clipped_ratio": Math.abs(noise(19)) / 4,
    "completions/mean_terminated_length": near(38, 20),
    rollout_tokens_per_second: near(2_000, 21),
    step_time: near(0.8, 22),
    reward_latency_p95: near(0.02, 23),
    rollout_time: near(0.4, 25),
    reward_time: near(0.05, 26),
    update_time: near(0.3, 27),
    other_time: near(0.05, 28),
    power_watts: near(300, 29),
    step_energy_joules: near(240, 30),
    errored_rollouts: 0,
    gpu_memory_peak_bytes: near(2e9, 24),
  };
}
