import { afterAll, beforeAll, expect, test } from "bun:test";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

test("F22 a pasted TRL config: the answer lists what is ignored, PEFT's names count, each name stands once in an error", async () => {
  const hyperparameters = { max_steps: 4, bf16: true, logging_steps: 1, max_prompt_length: 64, output_dir: "out" };
  const lora = { r: 4, lora_alpha: 8, lora_dropout: 0.1, task_type: "CAUSAL_LM", bias: "none" };
  const { status, body } = await app.post({ hyperparameters, lora });
  expect(status).toBe(201);
  expect(body.lora).toMatchObject({ r: 4, alpha: 8, dropout: 0.1 });
  const listed = [
    {
      param: "/lora",
      message:
        "ignored here: task_type (they describe the file of an adapter, which the server writes itself); bias (their values change nothing)",
    },
    {
      param: "/hyperparameters",
      message:
        "ignored here: bf16 (the server chooses precision, kernels and memory); logging_steps, output_dir (the server keeps results, checkpoints, metrics and logs); max_prompt_length (prompts are never cut; only max_length limits a row)",
    },
  ];
  expect(body.warnings).toMatchObject(listed);
  expect((await app.get(body.id)).warnings).toMatchObject(listed);
  const wrong = await app.post({ hyperparameters: { lr: 1 } });
  expect(wrong.body.error.message).toBe(
    "hyperparameters.lr: is not a hyperparameter of grpo. Did you mean learning_rate?",
  );
});

test("a value that would change the training is refused with what to do, and a neutral one passes", async () => {
  const neutral = {
    optim: "adamw_torch_fused",
    label_smoothing_factor: 0,
    quantization_config: null,
    loss_type: ["grpo"],
  };
  const lora = { use_dora: false, init_lora_weights: true, target_modules: null, modules_to_save: [] };
  const { status, body } = await app.post({ hyperparameters: neutral, lora });
  expect([status, body.hyperparameters?.loss_type]).toEqual([201, "grpo"]);
  for (const [more, param, message] of [
    [{ hyperparameters: { optim: "adafactor" } }, "/hyperparameters/optim", "the optimizer is AdamW"],
    [
      { hyperparameters: { generation_kwargs: { top_k: 5 } } },
      "/hyperparameters/generation_kwargs",
      "give temperature",
    ],
    [{ hyperparameters: { quantization_config: { a: 1 } } }, "/hyperparameters/quantization_config", "as base_model"],
    [{ hyperparameters: { load_in_4bit: true } }, "/hyperparameters/load_in_4bit", "NF4 needs lora, an NVIDIA GPU"],
    [{ hyperparameters: { bnb_4bit_quant_type: "fp4" } }, "/hyperparameters/bnb_4bit_quant_type", "gives nf4"],
    [{ lora: { use_dora: true } }, "/lora/use_dora", "plain LoRA"],
    [{ hyperparameters: { use_dora: true } }, "/hyperparameters/use_dora", "is set in the job's lora: lora.use_dora"],
  ] as const) {
    const { status, body } = await app.post(more);
    expect([status, body.error.param, body.error.message]).toEqual([422, param, expect.stringContaining(message)]);
  }
});

test("F25 a dataset by name, alone or with a snapshot; a name of several is refused with an id", async () => {
  const dataset = await app.dataset("prompt");
  const byName = await app.post({ dataset: "prompt" });
  expect([byName.status, byName.body.dataset.id]).toEqual([201, dataset]);
  const snapshot = byName.body.dataset.snapshot_id as string;
  const pinned = await app.post({ dataset: `prompt${snapshot}`, eval_dataset: `prompt@latest` });
  expect(pinned.body).toMatchObject({ dataset: { id: dataset, snapshot_id: snapshot }, eval_dataset: { id: dataset } });
  for (let i = 0; i < 2; i++) await app.call("POST", "/v1/datasets", { name: "twice", format: "prompt" });
  const several = await app.post({ dataset: "twice" });
  expect([several.status, several.body.error.param]).toEqual([422, "/dataset"]);
  expect(several.body.error.message).toMatch(/several datasets have the name "twice": give the id of one, such as ds_/);
});

test("the built-in model is being checked again: the job is accepted and waits for it", async () => {
  const { $client } = app.ctx.db;
  $client.run("UPDATE models SET status = 'pending', source = 'builtin', sha256 = 'aa' WHERE name = 'random'");
  const { status, body } = await app.post();
  $client.run("UPDATE models SET status = 'ready', source = 'folder', sha256 = NULL WHERE name = 'random'");
  expect([status, body.status]).toEqual([201, "queued"]);
  await app.call("POST", `/v1/training_jobs/${body.id}/cancel`);
});

async function labelled(labels: readonly unknown[]): Promise<string> {
  const { body } = await app.call("POST", "/v1/datasets", { name: "labelled", format: "completion" });
  const rows = labels.map((label, i) => ({ prompt: `p${i}`, completion: "c", label }));
  const added = await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows });
  if (added.status >= 300) throw new Error(JSON.stringify(added.body));
  return body.id;
}

test("a row of kto without a label is named, also among held-out rows", async () => {
  const body = { method: "kto", reward_source: null };
  const bare = await app.dataset("completion");
  const { status, body: answer } = await app.post({ ...body, dataset: bare });
  expect([status, answer.error.param]).toEqual([422, "/dataset"]);
  expect(answer.error.message).toContain(`kto cannot use row 1 of ${bare}: label is missing`);
  const dataset = await labelled([true, false, "no"]);
  const third = await app.post({ ...body, dataset });
  expect(third.body.error.message).toContain(`row 3 of ${dataset}: label must be true or false, not a string`);
  const held = await app.post({ ...body, dataset: await labelled([true, false]), eval_dataset: bare });
  expect([held.status, held.body.error.param]).toEqual([422, "/eval_dataset"]);
});

test("settings about the best evaluation need held-out rows", async () => {
  const hyperparameters = { early_stopping_patience: 2, load_best_model_at_end: true };
  const { status, body } = await app.post({ hyperparameters });
  expect([status, body.error.param]).toEqual([422, "/eval_dataset"]);
  expect(body.error.message).toContain("early_stopping_patience, load_best_model_at_end need held-out rows");
  const made = await app.post({ hyperparameters, eval_dataset: await app.dataset("prompt") });
  expect(made.body.hyperparameters).toMatchObject({ metric_for_best_model: "eval_reward", greater_is_better: true });
  expect([made.status, made.body.stopped_early]).toEqual([201, null]);
});

test("a reward for sft", async () => {
  const { status, body } = await app.post({ method: "sft", dataset: await app.dataset("chat") });
  expect([status, body.error.param]).toEqual([422, "/reward_source"]);
  expect(body.error.message).toContain("is only for the methods grpo, rloo and distill, not for sft");
});
