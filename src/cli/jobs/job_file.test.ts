import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import defaults from "../../../test/foreign_defaults.json" with { type: "json" };
import { tempDir } from "../../../test/harness.ts";
import { METHODS } from "../../lib/training/fields.ts";
import { loraRefusalOf, refusalOf, withOwnValues } from "../../lib/training/foreign_values.ts";
import { readHyperparameters } from "../../lib/training/hyperparameters.ts";
import { CreateTrainingJob } from "../../resources/training_jobs/admission/create_schema.ts";
import { located, REQUEST_FIELDS, readJobFile, sortFlat } from "./job_file.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));
const sorted = (values: Record<string, unknown>) => sortFlat("job.yaml", values);

test("the list of the request's fields is the schema's", () => {
  expect([...REQUEST_FIELDS].sort()).toEqual(Object.keys(CreateTrainingJob.shape).sort());
});

describe("a flat config of TRL", () => {
  test("is sorted into hyperparameters, lora, checkpoint and fields of the job", () => {
    const { body, rewards } = sorted({
      ...{ model_name_or_path: "verk-tiny", dataset_name: "sums", method: "grpo", seed: 7, output_dir: "out" },
      ...{
        learning_rate: 1e-5,
        use_vllm: true,
        lora_r: 8,
        lora_alpha: 16,
        use_dora: false,
        target_modules: ["q_proj"],
      },
      ...{ save_steps: 50, save_total_limit: 2, resume_from_checkpoint: null },
      ...{ reward_funcs: ["right.py", "brevity"], reward_weights: [1, 0.5] },
    });
    expect(body).toEqual({
      ...{ base_model: "verk-tiny", dataset: "sums", method: "grpo", seed: 7 },
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
    const whole = { ...defaults.args, ...defaults.base, ...defaults[method], ...defaults.model, ...defaults.lora };
    const { body } = sorted({ ...whole, use_peft: true, lora_r: undefined, lora_alpha: 16, lora_dropout: 0 });
    const raw = withOwnValues(body["hyperparameters"]) as Record<string, unknown>;
    const read = readHyperparameters(method, raw);
    expect(read).toMatchObject({ ok: true });
    if (!read.ok) return;
    expect(read.ignored.flatMap((name) => refusalOf(name, raw[name]) ?? [])).toEqual([]);
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
    text: "a: 1\nlearning_rat: 2\n",
    dir: ".",
    body: {},
    rewards: undefined,
    resolver: undefined,
    notes: [],
  };
  const error: { message: string; param: string | null } = {
    message: "hyperparameters.learning_rat: is not …",
    param: "/hyperparameters/learning_rat",
  };
  expect(located(file, error)).toEqual({ message: "job.yaml:2: hyperparameters.learning_rat: is not …", param: null });
  expect(located(file, { message: "x", param: "/seed" })).toEqual({ message: "x", param: "/seed" });
});
