import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { DEFAULTS } from "./defaults.ts";
import { METHODS, type Method } from "./fields.ts";
import { ALIASES, ELSEWHERE, IGNORED, IGNORED_LORA, LORA_ALIASES } from "./foreign_names.ts";
import { hyperparametersSchema, readHyperparameters } from "./hyperparameters.ts";
import { LoraSettings } from "./lora.ts";
import { type Facts, resolveHyperparameters } from "./resolve.ts";

const facts: Facts = { lora: true, rows: 1000, parameters: 5e8, contextLength: 4096, hasCompletions: true };

function problems(method: Method, raw: unknown, more: Partial<Facts> = {}) {
  const read = readHyperparameters(method, raw);
  if (!read.ok) return read.problems;
  const resolved = resolveHyperparameters(method, read.given, { ...facts, ...more });
  return resolved.ok ? [] : resolved.problems;
}

function resolved<M extends Method>(method: M, raw: unknown, more: Partial<Facts> = {}) {
  const read = readHyperparameters(method, raw);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  const resolution = resolveHyperparameters(method, read.given, { ...facts, ...more });
  if (!resolution.ok) throw new Error(JSON.stringify(resolution.problems));
  return resolution.values;
}

describe("invalid fields are refused with these messages", () => {
  test.each([
    ["grpo", { num_generation: 4 }, "is not a hyperparameter of grpo. Did you mean num_generations?"],
    ["grpo", { vllm_importance_sampling_mode: "x" }, /token_truncate/],
    ["grpo", { zzzzzzzzz: 1 }, "is not a hyperparameter of grpo"],
    ["grpo", { lr: 1 }, "is not a hyperparameter of grpo. Did you mean learning_rate?"],
    ["grpo", { per_device_batch_size: 1 }, /Did you mean per_device_train_batch_size\?/],
    ["grpo", { max_answer_length: 1 }, "is not a hyperparameter of grpo"],
    ["sft", { max_seq_length: 64, max_length: 64 }, "is another name of max_length: give one of them"],
    ["grpo", { max_seq_length: 64 }, "belongs to the methods sft, dpo, kto and orpo, but this job uses grpo"],
    ["sft", { vespo_k_pos: 1 }, "belongs to the methods grpo and distill, but this job uses sft"],
    ["sft", { num_generations: 4 }, "belongs to the methods grpo, rloo and distill, but this job uses sft"],
    ["sft", { beta: 0.1 }, "belongs to the methods grpo, rloo, distill, dpo, kto and orpo, but this job uses sft"],
    ["dpo", { packing: true }, "belongs to the method sft, but this job uses dpo"],
    ["grpo", { seed: 1 }, "is set on the job itself: seed"],
    ["grpo", { lora_alpha: 1 }, "is set in the job's lora: lora.alpha"],
    ["grpo", { toString: 1 }, "is not a hyperparameter of grpo"],
    ["grpo", { loss_type: "sigmoid" }, /"grpo"|dr_grpo/],
    ["dpo", { loss_type: "dapo" }, /sigmoid/],
    ["grpo", { learning_rate: 0 }, /more than 0/],
    ["grpo", { learning_rate: "fast" }, /must be a number/],
    ["sft", { max_steps: 0 }, "must be -1 (as many as the epochs take) or at least 1"],
    ["sft", { lr_scheduler_kwargs: { min_lr_rat: 0.1 } }, "unknown field: min_lr_rat. Did you mean min_lr_rate?"],
    ["sft", { lr_scheduler_type: "cosine_with_min_lr" }, /needs min_lr or min_lr_rate/],
    ["sft", { lr_scheduler_type: "polynomial", learning_rate: 1e-8 }, /lr_end must be less/],
    ["sft", { max_length: 5000 }, "is more than the model's context of 4096 tokens. Lower it"],
    ["dpo", { label_smoothing: 0.1, loss_type: "ipo" }, "works only with loss_type sigmoid"],
    ["grpo", { num_generations: 3, per_device_train_batch_size: 8 }, /must divide the 8 completions/],
    ["grpo", { generation_batch_size: 12, per_device_train_batch_size: 8 }, /× steps_per_generation/],
    ["grpo", { loss_type: "gspo", importance_sampling_level: "token" }, /must be sequence for the loss_type gspo/],
    ["grpo", { loss_type: "cispo", epsilon_high: 0 }, /must be more than 0 for the loss_type cispo/],
    ["sft", { metric_for_best_model: "accuracy" }, "must be one of eval_loss"],
    ["sft", { early_stopping_patience: 0 }, /at least 1/],
    ["rloo", { reward_clip_range: [1, 1] }, "must be [least, most], such as [-10, 10]"],
    ["rloo", { scale_rewards: "none" }, "belongs to the methods grpo and distill, but this job uses rloo"],
    ["kto", { per_device_train_batch_size: 1 }, /must be at least 2 for the loss_type kto/],
    ["kto", { desirable_weight: 0, undesirable_weight: 0 }, /nothing would be learned/],
    [
      "orpo",
      { loss_type: "sigmoid" },
      "belongs to the methods grpo, distill, sft, dpo and kto, but this job uses orpo",
    ],
    ["distill", { importance_sampling_level: "sequence" }, /must be token for distill/],
    ["grpo", { sampling: "replay" }, /needs solved_reward/],
    ["rloo", { retire_after: 2 }, /needs solved_reward/],
    ["grpo", { replay_share: 0.5 }, "works only with sampling replay"],
    ["grpo", { sampling: "difficulty", shuffle_dataset: false }, /must be true with sampling difficulty/],
    ["distill", { distillation_mix: 0.2 }, "works only with distillation_loss jsd"],
    ["distill", { distillation_mix: 1, distillation_loss: "jsd" }, /less than 1/],
    ["distill", { distillation_top_k: 20 }, "works only with distillation_loss reverse_kl, forward_kl or jsd"],
    ["distill", { distillation_clip: 5, distillation_loss: "jsd" }, "works only with distillation_loss sampled"],
    [
      "distill",
      { exact_sampling: true, distillation_loss: "hard" },
      "must be null or false with distillation_loss hard",
    ],
    ["distill", { beta: 0.1, distillation_loss: "hard" }, /must be 0 with distillation_loss hard/],
    ["grpo", { importance_sampling_clip_min: 4 }, /must be less than importance_sampling_clip_max \(3\)/],
    ["grpo", { importance_sampling_mode: "token_truncate", importance_sampling_clip_max: null }, /to truncate at/],
  ] as [Method, object, string | RegExp][])("%s %j", (method, raw, words) => {
    const found = problems(method, raw);
    expect(found).toHaveLength(1);
    if (typeof words === "string") expect(found[0]?.message).toBe(words);
    else expect(found[0]?.message).toMatch(words);
    const fields = [...Object.keys(raw), "lr_scheduler_kwargs"];
    expect(fields).toContain(String(found[0]?.path[0]));
  });

  test("F22 a pasted TRL config: names without effect here are ignored and listed, aliases count", () => {
    const pasted = { output_dir: "out", bf16: true, max_prompt_length: 512, report_to: "none", optim: "adamw_torch" };
    const read = readHyperparameters("grpo", { ...pasted, learning_rate: 1e-5, vllm_importance_sampling_cap: 2 });
    expect(read).toEqual({
      ok: true,
      given: { learning_rate: 1e-5, importance_sampling_clip_max: 2, optim: "adamw_torch" },
      ignored: Object.keys(pasted).filter((name) => name !== "optim"),
    });
    expect(readHyperparameters("sft", { max_seq_length: 64 })).toMatchObject({ given: { max_length: 64 } });
  });

  test("F22 the lists of foreign names: at least 150, and none that means something here", () => {
    const all = new Set(METHODS.flatMap((method) => [...IGNORED[method]]));
    expect(all.size).toBeGreaterThanOrEqual(150);
    for (const method of METHODS) {
      const known = Object.keys(hyperparametersSchema(method).shape);
      const aliases = Object.keys(ALIASES).filter((name) => known.includes(ALIASES[name] ?? ""));
      for (const name of [...known, ...Object.keys(ELSEWHERE), ...aliases])
        expect(IGNORED[method].has(name)).toBe(false);
    }
    for (const name of [...Object.keys(LoraSettings.unwrap().shape), ...Object.keys(LORA_ALIASES)])
      expect(IGNORED_LORA.has(name)).toBe(false);
  });

  test("all problems are reported at once", () => {
    expect(problems("grpo", { top_p: 2, beta: -1, what_is_this: 0 })).toHaveLength(3);
  });

  test("only an object is accepted; a missing value counts as an empty object", () => {
    expect(problems("sft", [1])).toEqual([{ path: [], message: "must be an object" }]);
    expect(problems("sft", null)).toEqual([]);
  });
});

describe("an absent field takes TRL's default", () => {
  test.each([
    ["grpo", 1e-6, 1e-5],
    ["sft", 2e-5, 2e-4],
    ["dpo", 1e-6, 1e-5],
    ["rloo", 1e-6, 1e-5],
    ["kto", 1e-6, 1e-5],
    ["orpo", 1e-6, 1e-5],
  ] as [Method, number, number][])("%s: the learning rate is ten times higher for LoRA", (method, full, lora) => {
    expect(resolved(method, {}, { lora: false }).learning_rate).toBe(full);
    expect(resolved(method, {}).learning_rate).toBe(lora);
    expect(resolved(method, { learning_rate: 3e-4 }).learning_rate).toBe(3e-4);
  });

  test("a field that depends on other fields follows them", () => {
    expect(resolved("grpo", { epsilon: 0.1, gradient_accumulation_steps: 4 })).toMatchObject({
      epsilon_high: 0.1,
      steps_per_generation: 4,
      generation_batch_size: 32,
      min_p: 0,
      scale_rewards: "group",
      loss_type: "dapo",
    });
    expect(resolved("grpo", { generation_batch_size: 32 })).toMatchObject({ steps_per_generation: 4 });
    expect(resolved("sft", {}, { hasCompletions: false }).completion_only_loss).toBe(false);
    expect(resolved("sft", {}).completion_only_loss).toBe(true);
  });

  test("gspo and cispo have their own clip range, which a given value replaces", () => {
    expect(resolved("grpo", { loss_type: "gspo" })).toMatchObject({
      importance_sampling_level: "sequence",
      epsilon: 3e-4,
      epsilon_high: 4e-4,
    });
    expect(resolved("grpo", { loss_type: "gspo", epsilon: 0.01 })).toMatchObject({ epsilon: 0.01, epsilon_high: 0.01 });
    expect(resolved("grpo", { loss_type: "cispo" })).toMatchObject({ epsilon: 0.2, epsilon_high: 5 });
    expect(resolved("grpo", { loss_type: "cispo", epsilon_high: 2 }).epsilon_high).toBe(2);
    expect(resolved("grpo", {})).toMatchObject({ importance_sampling_level: "token", epsilon_high: 0.2 });
  });

  test("a field that the user did not give is adapted to whole groups and to the model's context", () => {
    expect(resolved("grpo", { num_generations: 16 }).per_device_train_batch_size).toBe(16);
    expect(resolved("grpo", { num_generations: 3 }).per_device_train_batch_size).toBe(9);
    expect(resolved("grpo", {}, { contextLength: 300 }).max_completion_length).toBe(150);
    expect(resolved("sft", {}, { contextLength: 300 }).max_length).toBe(300);
    expect(resolved("dpo", { max_length: null }).max_length).toBe(4096);
  });

  test("booleans of TRL for scale_rewards are understood", () => {
    expect(resolved("grpo", { scale_rewards: false }).scale_rewards).toBe("none");
    expect(resolved("grpo", { scale_rewards: true }).scale_rewards).toBe("group");
  });
});

describe("auto", () => {
  const everything = (method: Method) =>
    Object.fromEntries(Object.keys({ ...DEFAULTS[method], learning_rate: 0 }).map((name) => [name, "auto"]));

  test.each([...METHODS])("sets every field of %s for all facts about the job", (method) => {
    for (const rows of [1, 3, 20, 1e6])
      for (const parameters of [3e6, 5e8, 7e10])
        for (const contextLength of [64, 8192]) {
          const values: Record<string, unknown> = resolved(method, everything(method), {
            rows,
            parameters,
            contextLength,
          });
          const allowed = ["lr_scheduler_kwargs", "delta", "importance_sampling_clip_min", "reward_clip_range"].concat([
            "early_stopping_patience",
            "metric_for_best_model",
            "greater_is_better",
            "neftune_noise_alpha",
            "exact_sampling",
            "off_policy_mask_threshold",
            ...["distillation_top_k", "distillation_prompt", "solved_reward", "retire_after"],
            "chat_template_kwargs",
          ]); // null = off; exact_sampling: the trainer decides
          for (const [name, value] of Object.entries(values)) {
            expect(value).not.toBe("auto");
            if (value === null) expect(allowed).toContain(name);
          }
          expect(problems(method, values, { rows, parameters, contextLength })).toEqual([]);
        }
  });

  test("gives a small model a larger rate and few rows more epochs", () => {
    // 1e-5 · sqrt(1e9 / 4e6) = 1e-5 · 15.8
    expect(resolved("grpo", { learning_rate: "auto" }, { parameters: 4e6 }).learning_rate).toBe(1.6e-4);
    expect(resolved("grpo", { learning_rate: "auto" }, { parameters: 8e9 }).learning_rate).toBe(1e-5);
    expect(resolved("grpo", { num_train_epochs: "auto" }, { rows: 50 }).num_train_epochs).toBe(4); // 50 steps an epoch
    expect(resolved("sft", { num_train_epochs: "auto" }, { rows: 50 }).num_train_epochs).toBe(3);
    expect(resolved("grpo", { num_train_epochs: "auto" }, { rows: 1e6 }).num_train_epochs).toBe(1);
  });

  test("samples eight prompts a step if the dataset has as many", () => {
    const input = { per_device_train_batch_size: "auto", gradient_accumulation_steps: "auto", num_generations: 4 };
    expect(resolved("grpo", input).generation_batch_size).toBe(32);
    expect(resolved("grpo", input, { rows: 3 }).generation_batch_size).toBe(12);
  });
});

test.each([...METHODS])(
  "the schema of %s in the document accepts what the reader accepts, and can be written as JSON schema",
  (method) => {
    const schema = hyperparametersSchema(method);
    expect(schema.safeParse({ learning_rate: "auto", max_steps: 4 }).success).toBe(true);
    expect(schema.safeParse({ learning_rates: 1 }).success).toBe(false);
    expect(Object.keys(z.toJSONSchema(schema, { io: "input" }).properties ?? {})).toContain("learning_rate");
  },
);
