import { expect, test } from "bun:test";
import type { TrainingJob } from "../types.ts";
import { compareSettings } from "./config.ts";

const job = (over: object) =>
  ({
    base_model: "verk-tiny",
    method: "grpo",
    seed: 1,
    lora: { r: 16 },
    gpu: null,
    reward_functions: [],
    gpu_requested: { type: "cpu", count: 1 },
    dataset: { id: "ds_1", snapshot_id: "@snap-1" },
    eval_dataset: null,
    hyperparameters: { learning_rate: 0.002 },
    checkpoint: {},
    priority: "normal",
    reward_source: null,
    lock: { reward_sha256: "a", app_version: "1" },
    ...over,
  }) as unknown as TrainingJob;

test("settings that differ are marked, nested ones by their path", () => {
  const rows = compareSettings([job({}), job({ seed: 2, lora: { r: 8 }, hyperparameters: { learning_rate: 0.001 } })]);
  expect(rows.filter(({ differs }) => differs)).toEqual([
    { name: "seed", values: ["1", "2"], differs: true },
    { name: "lora.r", values: ["16", "8"], differs: true },
    { name: "learning_rate", values: ["0.002", "0.001"], differs: true },
  ]);
  expect(rows.find(({ name }) => name === "dataset")).toEqual({
    name: "dataset",
    values: ["ds_1@snap-1", "ds_1@snap-1"],
    differs: false,
  });
});

test("a setting that one run lacks is empty there", () => {
  const rows = compareSettings([job({}), job({ lora: null })]);
  expect(rows.find(({ name }) => name === "lora.r")?.values).toEqual(["16", ""]);
});
