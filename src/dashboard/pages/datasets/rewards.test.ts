import { expect, test } from "bun:test";
import { stepsOf } from "./rewards.tsx";
import type { SampleOfRun } from "./samples.ts";

const sample = (step: number, reward: number | null) =>
  ({ job: {}, sample: { step, reward } }) as unknown as SampleOfRun;

test("the rewards of a row are means by step, in order, without samples that got none", () => {
  expect(stepsOf([sample(9, 1), sample(2, 0), sample(2, 0.5), sample(4, null), sample(9, null)])).toEqual([
    { step: 2, mean: 0.25 },
    { step: 9, mean: 1 },
  ]);
});
