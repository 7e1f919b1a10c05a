// tier: all (trains models)
import { describe, expect, test } from "bun:test";
import { FOREIGN_FIELDS } from "../../../test/foreign_fields.ts";
import { FIELDS, isRolled, METHODS, type Method } from "./fields.ts";
import { ALIASES, ELSEWHERE, IGNORED, IGNORED_LORA, ignoredText, LORA_ALIASES } from "./foreign_names.ts";
import { loraRefusalOf, refusalOf } from "./foreign_values.ts";
import { readHyperparameters } from "./hyperparameters.ts";
import { LoraSettings } from "./lora.ts";
import { suggestion } from "./names.ts";

const OWN = {
  grpo: "GRPOConfig",
  rloo: "RLOOConfig",
  distill: "GRPOConfig",
  sft: "SFTConfig",
  dpo: "DPOConfig",
  kto: "KTOConfig",
  orpo: "ORPOConfig",
} as const satisfies Record<Method, keyof typeof FOREIGN_FIELDS>;

const pasted = (method: Method) => [
  ...new Set([
    ...FOREIGN_FIELDS[OWN[method]],
    ...FOREIGN_FIELDS.TrainingArguments,
    ...FOREIGN_FIELDS.ModelConfig,
    ...FOREIGN_FIELDS.ScriptArguments,
  ]),
];

describe("every field of a config that people paste", () => {
  test.each([...METHODS])("for %s is taken, ignored with a reason, or says where it belongs", (method) => {
    const fields = Object.keys(FIELDS[method]);
    const isTaken = (name: string) => fields.includes(ALIASES[name] ?? name) || fields.includes(name);
    const rest = pasted(method).filter((name) => !isTaken(name) && !Object.hasOwn(ELSEWHERE, name));
    expect(rest.filter((name) => !IGNORED[method].has(name))).toEqual([]);
    const read = readHyperparameters(method, Object.fromEntries(rest.map((name) => [name, null])));
    expect(read).toMatchObject({ ok: true, ignored: rest });
    for (const name of Object.keys(ELSEWHERE)) expect(ELSEWHERE[name]).toMatch(/^(is|are) set (on|in) the job/);
  });

  test("of PEFT has a place in lora", () => {
    const known = [...Object.keys(LoraSettings.unwrap().shape), ...Object.keys(LORA_ALIASES)];
    const unknown = FOREIGN_FIELDS.LoraConfig.filter((name) => !known.includes(name) && !IGNORED_LORA.has(name));
    expect(unknown).toEqual([]);
  });

  test("has a reason of its own when it is ignored, unless its value decides", () => {
    const anything = { any: "thing" };
    const without = (of: Method | "lora", names: Iterable<string>) =>
      [...names].filter((name) => ignoredText(of, [name]).includes("their values change nothing"));
    for (const method of METHODS)
      for (const name of without(method, IGNORED[method])) expect(refusalOf(method, name, anything)).toBeString();
    for (const name of without("lora", IGNORED_LORA)) expect(loraRefusalOf(name, anything)).toBeString();
  });
});

describe("a config of GRPO that is pasted into a job of another method", () => {
  const pastedNames = FOREIGN_FIELDS.GRPOConfig.filter((name) => name.includes("vllm") || name === "log_completions");

  test.each(METHODS.filter((method) => !isRolled(method)))(
    "names of the engine for completions are ignored in %s, whatever their values",
    (method) => {
      const raw = Object.fromEntries([...pastedNames, "generation_kwargs"].map((name) => [name, "any"]));
      expect(readHyperparameters(method, raw)).toMatchObject({ ok: true, given: {}, ignored: Object.keys(raw) });
      for (const name of Object.keys(raw)) expect(refusalOf(method, name, "any")).toBeUndefined();
      expect(ignoredText(method, ["use_vllm"])).toBe(
        "ignored here: use_vllm (the server has its own engine for completions)",
      );
    },
  );

  test("a share of answers by the teacher is rejected", () => {
    expect(refusalOf("distill", "lmbda", 0.5)).toMatch(/the student writes all completions/);
    expect(refusalOf("distill", "lmbda", 1)).toBeUndefined();
  });

  test("a regex for completions is still rejected where completions are drawn", () => {
    expect(refusalOf("grpo", "vllm_structured_outputs_regex", "a+")).toMatch(/score the form/);
    expect(ignoredText("grpo", ["generation_kwargs"])).toContain("their values change nothing");
  });
});

describe("a suggestion", () => {
  const all = [...new Set(Object.values(FOREIGN_FIELDS).flat())];

  test.each([...METHODS])("for %s never turns a name of another config into one with another meaning", (method) => {
    const known = Object.keys(FIELDS[method]);
    const foreign = all.filter((name) => !known.includes(name) && !Object.hasOwn(ALIASES, name));
    expect(foreign.flatMap((name) => suggestion(name, known) || [])).toEqual([]);
    const misspelt = foreign.filter((name) => name.length > 8).map((name) => name.replace(/(.{4})./, "$1"));
    const wrong = misspelt.flatMap((name) => suggestion(name, known) || []);
    expect(wrong).toEqual([]);
  });

  test.each([
    ["grpo", "learning_rat", "learning_rate"],
    ["grpo", "max_completion_lenght", "max_completion_length"],
    ["sft", "train_epochs", "num_train_epochs"],
    ["dpo", "lr", "learning_rate"],
  ] as const)("of %s for %s is %s", (method, typed, meant) =>
    expect(suggestion(typed, Object.keys(FIELDS[method]))).toBe(`. Did you mean ${meant}?`),
  );
});
