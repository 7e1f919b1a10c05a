import { describe, expect, test } from "bun:test";
import { bodyOf, type JobFlags, rewardOf } from "./request.ts";

const flags = (more: Partial<JobFlags> = {}): JobFlags => ({
  set: [],
  lora: [],
  full: false,
  secret: [],
  volume: [],
  publish: false,
  ...more,
});

describe("the body of a creation", () => {
  test("holds what was asked for and nothing else", () => {
    expect(bodyOf(flags({ model: "verk-tiny", method: "grpo" }))).toEqual({ base_model: "verk-tiny", method: "grpo" });
  });

  test("reads values as JSON where they are, else as text", () => {
    const set = ["learning_rate=1e-4", "beta=auto", "shuffle_dataset=false", "min_p=null", "loss_type=dr_grpo"];
    expect(bodyOf(flags({ set }))).toEqual({
      hyperparameters: { learning_rate: 1e-4, beta: "auto", shuffle_dataset: false, min_p: null, loss_type: "dr_grpo" },
    });
  });

  test("takes adapters in one flag or several, with lists", () => {
    const lora = ["r=16,alpha=32", 'target_modules=["q_proj","v_proj"]'];
    expect(bodyOf(flags({ lora }))).toEqual({ lora: { r: 16, alpha: 32, target_modules: ["q_proj", "v_proj"] } });
  });

  test("asks for all weights with null", () => expect(bodyOf(flags({ full: true }))).toEqual({ lora: null }));

  test("puts flags over the file's fields, inside objects too", () => {
    const file = { method: "sft", hyperparameters: { learning_rate: 1, max_steps: 5 }, checkpoint: { keep_last: 2 } };
    const given = bodyOf(flags({ method: "dpo", set: ["learning_rate=2"], "save-steps": "10" }), file);
    expect(given).toEqual({
      method: "dpo",
      hyperparameters: { learning_rate: 2, max_steps: 5 },
      checkpoint: { keep_last: 2, save_steps: 10 },
    });
  });

  test("has limits in the API's units", () => {
    expect(bodyOf(flags({ "max-runtime": "90m", "max-cost": "2.50", gpus: "2" }))).toEqual({
      max_runtime_minutes: 90,
      max_cost_usd: 2.5,
      gpu: { gpu_count: 2 },
    });
  });
});

test.each([
  [{ full: true, lora: ["r=8"] }, "--full and --lora"],
  [{ set: ["learning_rate"] }, "--set: expected NAME=VALUE"],
  [{ seed: "x" }, "--seed: expected a whole number"],
  [{ "max-runtime": "soon" }, "--max-runtime"],
  [{ "max-cost": "-1" }, "--max-cost"],
  [{ volume: ["lab"] }, "--volume"],
] as [Partial<JobFlags>, string][])("%p is refused by the flag's name", (more, message) =>
  expect(() => bodyOf(flags(more))).toThrow(message),
);

test.each([
  ["exact_match", { id: "exact_match", weight: 1 }],
  ["length:0.2", { id: "length", weight: 0.2 }],
  ["short.py=0.5", { id: "short.py", weight: 0.5 }],
  ["rf_1:-1", { id: "rf_1", weight: -1 }],
])("the reward %s", (text, reward) => expect(rewardOf(text)).toEqual(reward));
