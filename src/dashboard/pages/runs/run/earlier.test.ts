import { expect, test } from "bun:test";
import type { JobSample } from "../types.ts";
import { previousOf } from "./earlier.ts";

const sample = (step: number, prompt: unknown, completion: string, reward: number | null = 0): JobSample => ({
  object: "training_job.sample",
  id: `${step}-0`,
  job_id: "job_1",
  step,
  number: 0,
  prompt,
  completion,
  reward,
  sub_rewards: {},
  advantage: 0,
  tokens: 1,
  truncated: false,
  error: null,
});

test("of several answers in the newest step the best one counts, and one without a reward last", () => {
  const samples = [sample(9, "a", "none", null), sample(9, "a", "good", 1), sample(9, "a", "bad", 0)];
  expect(previousOf([...samples, sample(3, "a", "older and better", 5)])?.completion).toBe("good");
  expect(previousOf(samples.slice(0, 1))?.completion).toBe("none");
  expect(previousOf([])).toBeUndefined();
});
