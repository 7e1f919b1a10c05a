import { expect, test } from "bun:test";
import type { JobEvent, JobSample, Point, TrainingJob } from "../types.ts";
import { bounded, chosenSteps, type StepSamples } from "./choice.ts";
import { runHtml } from "./html.ts";

const EVIL = `</script><img src=x onerror=alert(1)>"'&`;
const job = {
  id: "job_1",
  output_name: EVIL,
  status: "completed",
  method: "grpo",
  base_model: EVIL,
  lora: null,
  gpu: null,
  progress: { step: 3, total_steps: 3 },
  headline_metric: { name: "reward", value: 1, better: "higher" },
  cost_usd: 0,
  energy_wh: 2,
  started_at: null,
  completed_at: null,
  dataset: { id: EVIL, name: EVIL, snapshot_id: null, num_rows: 3 },
  reward_source: EVIL,
  hyperparameters: { [EVIL]: EVIL },
  error: { message: EVIL },
  lock: { app_version: "1", seed: 1 },
} as unknown as TrainingJob;
const points: Point[] = [1, 2, 3].map((step) => ({
  step,
  epoch: 0,
  time: "2026-01-01T00:00:00.000Z",
  values: { reward: step / 3, reward_std: 0.1, loss: 1 / step, [`rewards/${EVIL}/mean`]: 1, "rewards/b/mean": step },
}));
const event = { level: "warn", type: EVIL, message: EVIL, data: { step: 2 }, created_at: "" } as unknown as JobEvent;
const sample = {
  step: 3,
  prompt: EVIL,
  completion: EVIL,
  error: EVIL,
  reward: 1,
  advantage: 0,
  sub_rewards: { [EVIL]: null },
} as unknown as JobSample;

/** Every element of the text with its attributes, as a parser sees them. */
async function elementsOf(html: string): Promise<string[]> {
  const seen: string[] = [];
  const rewriter = new HTMLRewriter().on("*", {
    element: (element) => void seen.push([element.tagName, ...[...element.attributes].map(([name]) => name)].join(" ")),
  });
  await rewriter.transform(new Response(html)).text();
  return seen;
}

test("an exported run has no element and no attribute of a user's text, and nothing that runs", async () => {
  const file = { job, points, events: [event], checkpoints: [], samples: [[3, [sample]]] as const, leftOut: EVIL };
  const html = runHtml({ ...file, promptText: String, madeAt: "2026-01-01T00:00:00.000Z" });
  const elements = await elementsOf(html);
  expect(elements.filter((each) => /^img|^a |\bon\w+|\bsrc\b|\bhref\b/.test(each))).toEqual([]);
  expect(elements.filter((each) => each.startsWith("script"))).toEqual(["script type id"]);
  expect(html).toContain("default-src 'none'");
  const data = /id="run">(.*)<\/script>/s.exec(html)?.[1] ?? "";
  expect(JSON.parse(data)).toMatchObject({ job: { output_name: EVIL }, metrics: { length: 3 } });
});

test("steps of the samples are evenly spread, with the first and the last", () => {
  expect(chosenSteps(3)).toEqual([1, 2, 3]);
  expect(chosenSteps(0)).toEqual([]);
  const some = chosenSteps(10_000);
  expect([some.length, some[0], some.at(-1)]).toEqual([24, 1, 10_000]);
});

test("samples of the largest run stay small: long answers are cut, and the best and the worst of a step stay", () => {
  const long = (advantage: number, length: number) => ({ ...sample, advantage, completion: "x".repeat(length) });
  const step = (n: number): StepSamples => [n, Array.from({ length: 100 }, (_, i) => long(50 - i, 32_000))];
  const { samples, leftOut } = bounded(Array.from({ length: 24 }, (_, i) => step(i + 1)));
  expect(JSON.stringify(samples).length).toBeLessThan(3_100_000);
  expect(leftOut).toMatch(/^To keep this file small: 2,?400 long answers cut, [\d,]+ samples left out\.$/);
  const [, kept] = samples[0] ?? [0, []];
  expect([kept.length > 5, kept[0]?.advantage, kept.at(-1)?.advantage]).toEqual([true, 50, -49]);
  const small: StepSamples[] = [[1, [long(1, 10)]]];
  expect(bounded(small)).toEqual({ samples: small, leftOut: "" });
});
