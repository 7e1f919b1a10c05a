// tier: all (trains models)
/** Three rewards of each completion, and rows of which seven in eight teach nothing: at equal samples, prompts by difficulty learn more. */
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Score } from "../../src/workers/trainer/loop/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { IS_FULL, sweep } from "../sweep.ts";
import { planOf, runTraining } from "../trainer_kit.ts";
import { GRPO, LORA, mean, series } from "./tasks.ts";

const SEEDS = sweep({ quick: 1, full: 20 });
const STEPS = 80;
const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Only these can be answered. */
const isLive = (prompt: string) => prompt.endsWith("0");
const ROWS = Array.from({ length: 40 }, (_, i) => ({ prompt: `${String.fromCharCode(97 + (i % 26))}${i % 8}` }));
const LIVE = ROWS.filter(({ prompt }) => isLive(prompt));

const share = (text: string, kind: RegExp) => (text.match(kind) ?? []).length / Math.max(1, text.length);
let answerable = 0; // completions of prompts that can be answered
const score: Score = async (_, samples) => ({
  results: samples.map(({ prompt, completion }) => {
    if (isLive(String(prompt))) answerable++;
    const text = isLive(String(prompt)) ? String(completion) : "";
    const rewards = { capitals: share(text, /[A-Z]/g), early: share(text, /[A-M]/g), plain: share(text, /[A-Za-z]/g) };
    const reward = Object.values(rewards).reduce((a, b) => a + b, 0);
    return { reward, sub_rewards: rewards, error: null };
  }),
  latencies_ms: samples.map(() => 1),
  stdout: "",
});

/** The mean reward of the prompts that can be answered, over the last evaluations, and the completions of such prompts. */
async function learned(seed: number, sampling: "uniform" | "difficulty"): Promise<{ reward: number; tried: number }> {
  answerable = 0;
  const model = makeModel(join(dir, `${seed}`), { arch: "llama", type: "F32", width: 32, ff: 64, context: 128, seed });
  const given = {
    ...GRPO,
    learning_rate: 0.01,
    max_steps: STEPS,
    multi_objective_aggregation: "normalize_then_sum" as const,
    sampling,
  };
  const common = { dir, model, lora: LORA, context: 128, seed, method: "grpo" as const };
  const plan = await planOf({ ...common, rows: ROWS, heldOut: LIVE, given });
  const { steps, error } = await runTraining({ plan, dir, checkpoints: join(dir, `${seed}-${sampling}`), score });
  expect(error).toBeNull();
  return { reward: mean(series(steps, "eval_reward").slice(-3)), tried: answerable };
}

test("at equal samples, prompts that teach are tried more often; over many seeds they earn more", async () => {
  const gains: number[] = [];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const [chosen, usual] = [await learned(seed, "difficulty"), await learned(seed, "uniform")];
    expect(chosen.tried).toBeGreaterThan(1.5 * usual.tried);
    gains.push(chosen.reward - usual.reward);
  }
  if (!IS_FULL) return; // a few seeds say nothing about the reward
  const gain = mean(gains);
  const spread = Math.sqrt(gains.reduce((sum, each) => sum + (each - gain) ** 2, 0) / (gains.length - 1));
  const half = (1.96 * spread) / Math.sqrt(gains.length);
  console.log(`gain ${gain.toFixed(3)} ± ${half.toFixed(3)} over ${gains.length} seeds`);
  expect(gain - half).toBeGreaterThan(0);
}, 3_600_000);
