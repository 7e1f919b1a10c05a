// tier: all (trains models)
/** Jobs whose rollouts take several turns in an environment, through the API, on the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { until } from "../harness.ts";
import { openTraining } from "./training_kit.ts";

const ENVIRONMENT = `class Calculator:
    def reset(self, **row):
        self.calls = 0

    def add(self, x: int, y: int) -> int:
        """Add two numbers."""
        self.calls += 1
        return x + y

    def get_reward(self) -> float:
        return float(self.calls)

def length_reward(completions, environments, **kwargs):
    """Rewards see the messages of a rollout, and its environment."""
    assert all(e.calls >= 0 for e in environments)
    return [len(str(messages[-1].get("content"))) / 1000 for messages in completions]
`;
const SMALL = {
  max_steps: 3,
  num_generations: 2,
  per_device_train_batch_size: 4,
  max_completion_length: 48,
  max_rollout_tokens: 120,
  max_turns: 3,
  learning_rate: 1e-3,
};
const JOB = { reward_source: ENVIRONMENT, reward_language: "python", hyperparameters: SMALL };
const LONG_MS = 240_000;

let training: Awaited<ReturnType<typeof openTraining>>;
let dataset: string;
beforeAll(async () => {
  training = await openTraining({ env: { VERK_TRAINING__THREADS: "1", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" } });
  dataset = await training.prepare((i) => ({ prompt: `Add ${100 + 37 * i} and ${900 - 11 * i}.` }));
}, LONG_MS);
afterAll(() => training?.server.kill("SIGKILL"));

test("a job learns from rollouts with tools; a killed trainer resumes with the same stream", async () => {
  const { create, ended, streamOf, call, trainerPid } = training;
  const calm = await create(dataset, 5, JOB);
  expect(await ended(calm)).toMatchObject({ status: "completed" });
  const stream = await streamOf(calm);
  expect(stream).toHaveLength(3);
  for (const { values } of stream) {
    expect(values["turns/mean"]).toBeGreaterThan(1);
    expect(values["tools/call_frequency"]).toBeGreaterThan(0);
    expect(values["errored_rollouts"]).toBe(0);
    expect(Object.keys(values)).toContain("rewards/reward/Calculator/mean");
    expect(Object.keys(values)).toContain("rewards/reward/length_reward/mean");
  }
  const { data } = await call("GET", `/training_jobs/${calm}/samples?limit=50`);
  const shown = data.map(({ completion }: { completion: string }) => completion).join("\n");
  expect(shown).toContain("<tool_call>");
  expect(shown).toContain("<tool_response>");

  const killed = await create(dataset, 5, JOB);
  await until("the first step", async () => ((await streamOf(killed)).length >= 1 ? true : undefined), LONG_MS);
  const pid = trainerPid();
  if (pid !== undefined) process.kill(pid, "SIGKILL");
  expect(await ended(killed)).toMatchObject({ status: "completed" });
  expect(await streamOf(killed)).toEqual(stream);
}, 480_000);

test(
  "a dry run shows rollouts with their rewards; wrong combinations get one sentence",
  async () => {
    const { call } = training;
    const job = { base_model: "verk-tiny", method: "grpo", dataset, seed: 5, output_name: "agent", ...JOB };
    const dry = await call("POST", "/training_jobs/validate", job);
    expect(dry.errors).toEqual([]);
    const [sample] = dry.reward_preview.samples;
    expect(sample).toMatchObject({ error: null, reward: expect.any(Number) });
    expect(sample.completion).toContain("<tool_response>");
    const refusal = (changes: object) =>
      call("POST", "/training_jobs", { ...job, ...changes }).then(
        () => "accepted",
        (error: Error) => error.message,
      );
    const plain = { reward_source: "def reward(completions, **kwargs):\n    return [1.0] * len(completions)\n" };
    expect(await refusal(plain)).toContain("max_turns: is only for rollouts in an environment");
    expect(await refusal({ reward_source: "class Env:\n    def reset(self):\n        pass\n" })).toContain(
      "get_reward",
    );
    const stored = await call("POST", "/reward_functions", {
      name: "calculator",
      language: "python",
      source: ENVIRONMENT,
    });
    expect(stored.entrypoints.map(({ name }: { name: string }) => name)).toContain("Calculator");
    expect(await refusal({ reward_functions: [{ id: stored.id }] })).toContain("are in two sources");
  },
  LONG_MS,
);
