import { describe, expect, test } from "bun:test";
import { bodyOf, flaggedOf, type JobFlags, type JobSettings, requestOf, rewardOf } from "./request.ts";

const flags = (more: Partial<JobFlags> = {}): JobFlags => ({
  set: [],
  lora: [],
  tag: [],
  full: false,
  secret: [],
  volume: [],
  env: [],
  publish: false,
  ...more,
});

describe("the body of a creation", () => {
  test("says what a command may use, over the file's fields one by one", () => {
    const file = { resources: { memory_mib: 512, cpus: 1 }, env: { A: "1", B: "2" } };
    const given = { memory: "6GiB", disk: "1.5T", "gpu-memory": "512 MiB", network: "guarded", env: ["B=x=y", "C="] };
    const volume = ["lab:/workspace/lab", "set:/workspace/set:ro"];
    expect(bodyOf(flags({ ...given, volume }), file)).toEqual({
      resources: { memory_mib: 6144, cpus: 1, disk_mib: 1_572_864, gpu_memory_mib: 512 },
      network: "guarded",
      env: { A: "1", B: "x=y", C: "" },
      volumes: [
        { name: "lab", mount_path: "/workspace/lab" },
        { name: "set", mount_path: "/workspace/set", read_only: true },
      ],
    });
  });

  test("keeps the tags of the file unless flags give others", () => {
    expect(bodyOf(flags(), { tags: ["old"] })).toEqual({ tags: ["old"] });
    expect(bodyOf(flags({ tag: ["a", "b"] }), { tags: ["old"] })).toEqual({ tags: ["a", "b"] });
  });

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
    const body = bodyOf(flags({ method: "dpo", set: ["learning_rate=2"], "save-steps": "10" }), file);
    expect(body).toEqual({
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
  [{ memory: "6" }, "--memory: expected a size such as 512MiB or 6GiB"],
  [{ disk: "0G" }, "--disk"],
  [{ cpus: "half" }, "--cpus: expected a whole number"],
  [{ env: ["A"] }, "--env: expected NAME=VALUE"],
] as [Partial<JobFlags>, string][])("%p is refused by the flag's name", (more, message) =>
  expect(() => bodyOf(flags(more))).toThrow(message),
);

test.each([
  ["exact_match", { id: "exact_match", weight: 1 }],
  ["length:0.2", { id: "length", weight: 0.2 }],
  ["short.py=0.5", { id: "short.py", weight: 0.5 }],
  ["rf_1:-1", { id: "rf_1", weight: -1 }],
])("the reward %s", (text, reward) => expect(rewardOf(text)).toEqual(reward));

describe("a request", () => {
  const settings = (more: Partial<JobSettings> = {}): JobSettings => ({
    path: "job.yaml",
    dir: "/jobs",
    body: {},
    rewards: undefined,
    resolver: undefined,
    ...more,
  });
  const none = { values: [], from: "--reward", dir: "." };

  test("of flags alone has the inputs that the flags name", () => {
    const inputFlags = { model: "verk-tiny", dataset: "sums.jsonl", reward: ["a.py", "b=0.2"], code: "code.zip" };
    expect(requestOf(undefined, { ...flags(), ...inputFlags })).toEqual({
      body: { base_model: "verk-tiny" },
      inputs: {
        rewards: { values: [{ text: "a.py" }, { text: "b=0.2" }], from: "--reward", dir: "." },
        resolver: undefined,
        datasets: [{ field: "dataset", text: "sums.jsonl", from: "--dataset" }],
        code: "code.zip",
      },
    });
  });

  test("of a file has its inputs, read from its folder", () => {
    const body = { method: "grpo", dataset: "/jobs/sums.jsonl", eval_dataset: "held", code_artifact_id: "art_1" };
    const file = settings({ body, rewards: [{ id: "a.py" }], resolver: "/jobs/map.py" });
    expect(requestOf(file, { ...flags(), reward: [] })).toEqual({
      body: { method: "grpo", code_artifact_id: "art_1" },
      inputs: {
        rewards: { values: [{ id: "a.py" }], from: "job.yaml", dir: "/jobs" },
        resolver: "/jobs/map.py",
        datasets: [
          { field: "dataset", text: "/jobs/sums.jsonl", from: "job.yaml: dataset" },
          { field: "eval_dataset", text: "held", from: "job.yaml: eval_dataset" },
        ],
        code: undefined,
      },
    });
  });

  test("keeps fields of the file that no input replaces", () => {
    const body = { reward_functions: [{ id: "rf_1" }], data_resolver: "clean", dataset: { id: "ds_1" } };
    expect(requestOf(settings({ body }), { ...flags(), reward: [] })).toEqual({
      body,
      inputs: { rewards: none, resolver: undefined, datasets: [], code: undefined },
    });
  });

  test("loses every field of the file whose kind a flag gives", () => {
    const body = {
      method: "grpo",
      reward_source: "x",
      reward_language: "python",
      reward_functions: [{ id: "rf_1" }],
      data_resolver: "clean",
      data_resolver_source: "y",
      dataset: "old",
      code_artifact_id: "art_1",
    };
    const file = settings({ body, rewards: [{ id: "a.py" }], resolver: "/jobs/map.py" });
    const inputFlags = { reward: ["b.py"], resolver: "other.py", dataset: "new", code: "art_2" };
    expect(requestOf(file, { ...flags(), ...inputFlags })).toEqual({
      body: { method: "grpo" },
      inputs: {
        rewards: { values: [{ text: "b.py" }], from: "--reward", dir: "." },
        resolver: "other.py",
        datasets: [{ field: "dataset", text: "new", from: "--dataset" }],
        code: "art_2",
      },
    });
    expect(body.reward_source).toBe("x");
  });

  test("knows which fields flags set", () => {
    const inputFlags = { set: ["beta=1"], dataset: "sums", reward: ["a.py"] };
    expect(flaggedOf({ ...flags(), ...inputFlags })).toEqual({
      hyperparameters: { beta: 1 },
      dataset: "sums",
      eval_dataset: undefined,
      reward_functions: "a.py",
    });
  });
});
