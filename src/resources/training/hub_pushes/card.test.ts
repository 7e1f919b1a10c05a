import { expect, test } from "bun:test";
import { type CardFacts, cardOf } from "./card.ts";

const JOB: CardFacts = {
  repo: "acme/sums",
  variant: "adapter",
  quantization: "",
  base: "acme/base:Q8_0",
  hubBase: "acme/base",
  job: {
    id: "job_1",
    method: "grpo",
    steps: 5,
    totalSteps: 10,
    seed: 7,
    dataset: "ds_1@snap-2",
    rows: 12,
    rewards: [{ name: "right", weight: 0.5 }],
    lora: { r: 4 },
    hyperparameters: { learning_rate: 0.001, loss_type: "grpo" },
    hashes: { "Base model (sha256)": "abc", "Reward (sha256)": null },
    version: "1.0",
  },
  curve: [
    { step: 1, values: { reward: 0.123456, odd: 1 } },
    { step: 5, values: { reward: 1, loss: 2 } },
  ],
};

test("a card names base, data, reward, settings and curves", () => {
  const card = cardOf(JOB);
  expect(card.split("\n").slice(0, 7)).toEqual([
    "---",
    "library_name: peft",
    'base_model: "acme/base"',
    "base_model_relation: adapter",
    'tags: ["verk","grpo"]',
    "---",
    "",
  ]);
  for (const line of [
    "| Dataset | ds\\_1@snap-2 |",
    "| Reward | right × 0.5 |",
    "| Base model (sha256) | abc |",
    "| lora.r | 4 |",
    "| loss\\_type | grpo |",
    "| Step | reward | loss |",
    "| 1 | 0.1235 |  |",
    "| 5 | 1 | 2 |",
  ])
    expect(card.split("\n")).toContain(line);
  expect(card).not.toContain("Reward (sha256)");
});

test("names of users neither end a cell nor begin markup", () => {
  const evil = "x | <script>\n# [a](b)";
  const card = cardOf({ ...JOB, base: evil, job: { ...JOB.job!, rewards: [{ name: evil, weight: 1 }] } });
  expect(card).not.toContain("<script>\n");
  expect(card).toContain("| Reward | x \\| \\<script\\> \\# \\[a\\](b) × 1 |");
});

test("a model without a job has a short card, and a base that the hub does not know is only in the text", () => {
  const card = cardOf({
    ...JOB,
    variant: "model",
    quantization: "Q8_0",
    job: null,
    hubBase: null,
    base: "mine",
    curve: [],
  });
  expect(card).toBe('---\nlibrary_name: gguf\ntags: ["verk"]\n---\n\n# sums\n\nA GGUF file (Q8_0) of mine by Verk.\n');
});
