import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import defaults from "../../../test/foreign_defaults.json" with { type: "json" };
import { tempDir } from "../../../test/harness.ts";
import { METHODS } from "../../lib/training/fields.ts";
import { loraRefusalOf, refusalOf, withOwnValues } from "../../lib/training/foreign_values.ts";
import { readHyperparameters } from "../../lib/training/hyperparameters.ts";
import { CreateTrainingJob } from "../../resources/training/training_jobs/admission/create_schema.ts";
import { type Fault, located, REQUEST_FIELDS, readJobFile, sortFlat } from "./job_file.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));
const sorted = (values: Record<string, unknown>) => sortFlat("job.yaml", values);

test("the list of the request's fields is the schema's", () => {
  expect([...REQUEST_FIELDS].sort()).toEqual(Object.keys(CreateTrainingJob.unwrap().shape).sort());
});

describe("a flat config of TRL", () => {
  test("is sorted into hyperparameters, lora, checkpoint and fields of the job", () => {
    const { body, rewards } = sorted({
      model_name_or_path: "verk-tiny",
      dataset_name: "sums",
      method: "grpo",
      seed: 7,
      output_dir: "out",
      learning_rate: 1e-5,
      use_vllm: true,
      lora_r: 8,
      lora_alpha: 16,
      use_dora: false,
      target_modules: ["q_proj"],
      save_steps: 50,
      save_total_limit: 2,
      resume_from_checkpoint: null,
      reward_funcs: ["right.py", "brevity"],
      reward_weights: [1, 0.5],
    });
    expect(body).toEqual({
      base_model: "verk-tiny",
      dataset: "sums",
      method: "grpo",
      seed: 7,
      hyperparameters: { output_dir: "out", learning_rate: 1e-5, use_vllm: true },
      lora: { lora_r: 8, lora_alpha: 16, use_dora: false, target_modules: ["q_proj"] },
      checkpoint: { save_steps: 50, keep_last: 2 },
    });
    expect(rewards).toEqual([
      { text: "right.py", weight: 1 },
      { text: "brevity", weight: 0.5 },
    ]);
  });

  test("may have the objects of the request too, and a peft_config", () => {
    const { body } = sorted({
      hyperparameters: { beta: 0 },
      epsilon: 0.1,
      lora: { r: 4 },
      peft_config: { lora_alpha: 8 },
    });
    expect(body).toEqual({ hyperparameters: { beta: 0, epsilon: 0.1 }, lora: { r: 4, lora_alpha: 8 } });
  });

  test("with use_peft: false trains all weights", () => {
    const { body, notes } = sorted({ use_peft: false, lora_r: 16, learning_rate: 1e-5 });
    expect(body).toEqual({ hyperparameters: { learning_rate: 1e-5 }, lora: null });
    expect(notes).toEqual(["use_peft is false: all weights are trained. Ignored: lora_r."]);
  });

  test.each([...METHODS])("with every default of %s is taken whole", (method) => {
    const whole = {
      ...defaults.args,
      ...defaults.base,
      ...defaults[method === "distill" ? "grpo" : method],
      ...defaults.model,
      ...defaults.lora,
    };
    const { body } = sorted({ ...whole, use_peft: true, lora_r: undefined, lora_alpha: 16, lora_dropout: 0 });
    const raw = withOwnValues(body["hyperparameters"]) as Record<string, unknown>;
    const read = readHyperparameters(method, raw);
    expect(read).toMatchObject({ ok: true });
    if (!read.ok) return;
    expect(read.ignored.flatMap((name) => refusalOf(method, name, raw[name]) ?? [])).toEqual([]);
    const lora = Object.entries(body["lora"] as Record<string, unknown>);
    expect(lora.flatMap(([name, value]) => loraRefusalOf(name, value) ?? [])).toEqual([]);
    expect(body["checkpoint"]).toEqual({ save_steps: 500 });
  });

  test.each([
    [{ model: "a", base_model: "b" }, "job.yaml: base_model is there twice"],
    [{ beta: 0, hyperparameters: { beta: 1 } }, "job.yaml: beta is there twice"],
    [{ metdata: {} }, "job.yaml: there is no field metdata. Did you mean metadata?"],
    [{ reward_funcs: ["a", "b"], reward_weights: [1] }, "reward_weights has 1 values, but there are 2 rewards"],
    [{ rewards: [7] }, "job.yaml: rewards must be names or files"],
  ])("%j is refused", (values, message) => expect(() => sorted(values)).toThrow(message));

  test("keeps an unknown name, so that the server can suggest the right one", () => {
    expect(sorted({ learning_rat: 1 }).body).toEqual({ hyperparameters: { learning_rat: 1 } });
  });
});

test("paths begin at the folder of the file; a reward function may be a file", async () => {
  const dir = join(root, "runs");
  mkdirSync(dir);
  for (const [name, text] of [
    ["sums.jsonl", "{}"],
    ["right.py", "x"],
    [
      "job.yaml",
      "base_model: ./tiny.gguf\ndataset: sums.jsonl\neval_dataset: held\nreward_functions:\n  - id: right.py\n    weight: 0.5\nresolver: map.py\n",
    ],
  ] as const)
    writeFileSync(join(dir, name), text);
  const file = await readJobFile(join(dir, "job.yaml"));
  expect(file.body).toEqual({
    base_model: join(dir, "tiny.gguf"),
    dataset: join(dir, "sums.jsonl"),
    eval_dataset: "held",
  });
  expect([file.dir, file.rewards]).toEqual([dir, [{ id: "right.py", weight: 0.5 }]]);
  expect(file.resolver).toBe(join(dir, "map.py"));
  writeFileSync(join(dir, "stored.yaml"), "resolver: clean@2\n");
  expect((await readJobFile(join(dir, "stored.yaml"))).resolver).toBe("clean@2");
});

test("an error of the server names the line of the file", () => {
  const file = {
    path: "job.yaml",
    text: "model_name_or_path: x\nlearning_rat: 2\nlr_scheduler_kwargs: {}\nsave_total_limit: 1\nreward_funcs: [a]\n",
    dir: ".",
    body: { hyperparameters: { learning_rat: 2 } },
    rewards: undefined,
    resolver: undefined,
    notes: [],
  };
  const at = (param: string | null, flagged: Record<string, unknown> = {}) =>
    located<Fault>(file, flagged, { message: "x", param }).place;
  expect(at("/hyperparameters/learning_rat")).toBe("job.yaml:2: learning_rat");
  expect(at("/hyperparameters/learning_rat", { hyperparameters: { learning_rat: 1 } })).toBeUndefined();
  expect(at("/hyperparameters/learning_rat", { hyperparameters: { beta: 1 } })).toBe("job.yaml:2: learning_rat");
  expect(at("/hyperparameters/lr_scheduler_kwargs/min_lr")).toBe("job.yaml:3: lr_scheduler_kwargs.min_lr");
  expect(at("/hyperparameters")).toBe("job.yaml");
  expect(at("/base_model")).toBe("job.yaml:1: model_name_or_path");
  expect(at("/base_model", { base_model: "other" })).toBeUndefined();
  expect(at("/checkpoint/keep_last")).toBe("job.yaml:4: save_total_limit");
  expect(at("/reward_functions/0/id")).toBe("job.yaml:5: reward_funcs.0.id");
  for (const other of ["/seed", "/lora", "/hyperparameters/beta", null]) expect(at(other)).toBeUndefined();
});
