import { expect, test } from "bun:test";
import type { JobSample } from "../types.ts";
import { bestOf, LOOK_BACK, lookBack, promptKey } from "./earlier.ts";

const sample = (step: number, prompt: unknown, completion: string, reward: number | null = 0): JobSample => ({
  ...{ object: "training_job.sample", id: `${step}-0`, job_id: "job_1", step, number: 0, prompt, completion, reward },
  ...{ sub_rewards: {}, advantage: 0, tokens: 1, truncated: false, error: null },
});

async function search(step: number, prompts: unknown[], steps: Record<number, JobSample[]>) {
  const read: number[] = [];
  let found: ReadonlyMap<string, JobSample> = new Map();
  const keys = new Set(prompts.map((prompt) => JSON.stringify(prompt)));
  const reader = async (at: number) => {
    read.push(at);
    return steps[at] ?? [];
  };
  await lookBack({ step, prompts: keys, read: reader, isStopped: () => false }, (next) => {
    found = next;
  });
  return { read, found: Object.fromEntries([...found].map(([key, { completion }]) => [key, completion])) };
}

test("the nearest earlier answer to the same prompt is found, across steps without it", async () => {
  const chat = [{ role: "user", content: "b" }];
  const { found } = await search(40, ["a", chat, "never"], {
    3: [sample(3, "a", "old")],
    20: [sample(20, "a", "near"), sample(20, chat, "chat")],
    40: [sample(40, "a", "now")],
  });
  expect(found).toEqual({ '"a"': "near", [JSON.stringify(chat)]: "chat" });
});

test("the search stops as soon as every prompt was found, and does not look back for ever", async () => {
  expect((await search(50, ["a"], { 49: [sample(49, "a", "x")] })).read.length).toBeLessThanOrEqual(8);
  const { read } = await search(10_000, ["a"], {});
  expect([read.length, Math.min(...read)]).toEqual([LOOK_BACK, 10_000 - LOOK_BACK]);
  expect((await search(1, ["a"], {})).read).toEqual([]);
});

test("of several answers in one step the best one counts, and one without a reward last", () => {
  const samples = [sample(1, "a", "none", null), sample(1, "a", "good", 1), sample(1, "a", "bad", 0)];
  expect(bestOf(samples, promptKey({ prompt: "a" }))?.completion).toBe("good");
  expect(bestOf(samples.slice(0, 1), '"a"')?.completion).toBe("none");
  expect(bestOf(samples, '"b"')).toBeUndefined();
});
