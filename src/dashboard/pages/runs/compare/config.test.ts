import { expect, test } from "bun:test";
import type { TrainingJob } from "../types.ts";
import { codeDifferences, compareSettings } from "./config.ts";

const job = (over: object) =>
  ({
    base_model: "verk-tiny",
    method: "grpo",
    seed: 1,
    lora: { r: 16 },
    gpu: null,
    reward_functions: [],
    reward_language: null,
    gpu_requested: { type: "cpu", count: 1 },
    dataset: { id: "ds_1", name: "carry", snapshot_id: "@snap-1", num_rows: 63 },
    eval_dataset: null,
    hyperparameters: { learning_rate: 0.002 },
    checkpoint: { save_steps: 0, keep_last: 3 },
    priority: "normal",
    reward_source: null,
    lock: { reward_sha256: "a", app_version: "1" },
    tags: [],
    group: null,
    ...over,
  }) as unknown as TrainingJob;

const compare = (...jobs: TrainingJob[]) => compareSettings(jobs, (id) => (id === "rf_1" ? "is right" : id));
const find = (rows: ReturnType<typeof compare>, wanted: string) => rows.find(({ name }) => name === wanted)?.values;

test("settings that differ are marked and said in words", () => {
  const rows = compare(
    job({}),
    job({
      seed: 2,
      lora: { r: 8, bias: null },
      hyperparameters: { learning_rate: 0.00015, bf16: true, stop: ["a", "b"] },
    }),
  );
  expect(rows.filter(({ differs }) => differs)).toEqual([
    { name: "Seed", values: ["1", "2"], differs: true },
    { name: "LoRA r", values: ["16", "8"], differs: true },
    { name: "Learning rate", values: ["0.002", "0.00015"], differs: true },
    { name: "LoRA bias", values: ["", "none"], differs: true },
    { name: "Bf16", values: ["", "yes"], differs: true },
    { name: "Stop", values: ["", "a, b"], differs: true },
  ]);
});

test("datasets and stored rewards have their names, not their ids", () => {
  const rewards = {
    reward_functions: [
      { id: "rf_1", weight: 1, params: {} },
      { id: "length", weight: 0.2, params: {} },
    ],
  };
  const rows = compare(job(rewards), job({ dataset: { id: "ds_2", name: null, snapshot_id: "@snap-2", num_rows: 1 } }));
  expect(find(rows, "Dataset")).toEqual(["carry @snap-1, 63 rows", "ds_2 @snap-2, 1 rows"]);
  expect(find(rows, "Rewards")).toEqual(["is right, length × 0.2", "none"]);
  expect(find(rows, "Held-out rows")).toEqual(["none", "none"]);
});

test("a setting with parts has a row for each of them, and never JSON", () => {
  const rows = compare(job({ hyperparameters: { lr_scheduler_kwargs: { min_lr: 0.1, cycles: { n: 2 } } } }), job({}));
  expect(find(rows, "Lr scheduler kwargs: min lr")).toEqual(["0.1", ""]);
  expect(find(rows, "Lr scheduler kwargs: cycles: n")).toEqual(["2", ""]);
  expect(rows.flatMap(({ values }) => values).filter((value) => /[{}[\]"]/.test(value))).toEqual([]);
});

test("code is compared with that of the first run that has some", () => {
  const [a, b, c, d] = [
    job({ id: "a" }),
    job({ id: "b", reward_source: "x" }),
    job({ id: "c", reward_source: "y" }),
    job({ id: "d", reward_source: "x" }),
  ];
  expect(codeDifferences([a, b, c, d])).toEqual([{ from: b, to: c, before: "x", after: "y" }]);
  expect(codeDifferences([a, b])).toEqual([]);
});
