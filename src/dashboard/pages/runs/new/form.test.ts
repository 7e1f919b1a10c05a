import { expect, test } from "bun:test";
import type { TrainingJob } from "../types.ts";
import { bodyOf, EMPTY, formOf } from "./form.ts";

const filled = {
  ...EMPTY,
  model: "verk-tiny",
  dataset: "ds_1",
  reward: "exact_match",
  numbers: { max_steps: "5", beta: "" },
};

test("empty fields are left out, so that the server decides", () => {
  expect(bodyOf(filled, undefined)).toEqual({
    body: {
      base_model: "verk-tiny",
      dataset: "ds_1",
      method: "grpo",
      hyperparameters: { max_steps: 5 },
      reward_source: null,
      reward_functions: [{ id: "exact_match" }],
      lora: { r: 16, alpha: 32 },
    },
  });
});

test("in a clone an empty field is automatic, not the value of the cloned run", () => {
  const request = bodyOf({ ...filled, reward: "keep", rank: "0" }, "job_1");
  expect(request).toMatchObject({
    body: { source_job: "job_1", lora: null, hyperparameters: { max_steps: 5, beta: "auto" } },
  });
  expect("body" in request && "reward_source" in request.body).toBe(false);
});

test("fields of another method are not sent", () => {
  const request = bodyOf({ ...filled, method: "sft", numbers: { num_generations: "8", max_length: "64" } }, undefined);
  expect(request).toMatchObject({ body: { hyperparameters: { max_length: 64 } } });
  expect(JSON.stringify(request)).not.toMatch(/num_generations|reward/);
});

test("what is no number and no JSON is named by its pointer", () => {
  expect(bodyOf({ ...filled, numbers: { learning_rate: "fast" }, seed: "x", more: "[1]" }, undefined)).toEqual({
    faults: {
      "/hyperparameters": 'must be an object in braces, such as {"temperature": 0.9}',
      "/hyperparameters/learning_rate": "must be a number",
      "/seed": "must be a number",
    },
  });
});

test("a cloned run fills the form", () => {
  const job = {
    output_name: "sums",
    base_model: "verk-tiny",
    method: "grpo",
    seed: 7,
    dataset: { id: "ds_1" },
    lora: { r: 8 },
    eval_dataset: null,
    reward_source: null,
    hyperparameters: { max_steps: 40, top_p: 1 },
    max_cost_usd: null,
  } as unknown as TrainingJob;
  expect(formOf(job)).toMatchObject({
    name: "sums-again",
    model: "verk-tiny",
    dataset: "ds_1",
    reward: "keep",
    rank: "8",
    seed: "7",
    numbers: { max_steps: "40", num_generations: "" },
  });
});
