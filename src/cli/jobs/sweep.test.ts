import { expect, test } from "bun:test";
import { splitSettings, trialsOf, withTrial } from "./sweep.ts";

test("a sweep has a job for each value, and one for each combination of several settings", () => {
  expect(trialsOf([])).toEqual([{}]);
  expect(trialsOf(["learning_rate=1e-4, 3e-4,1e-3"])).toEqual([
    { learning_rate: "1e-4" },
    { learning_rate: "3e-4" },
    { learning_rate: "1e-3" },
  ]);
  expect(trialsOf(["beta=0,1", "loss_type=grpo,dapo"])).toEqual([
    { beta: "0", loss_type: "grpo" },
    { beta: "0", loss_type: "dapo" },
    { beta: "1", loss_type: "grpo" },
    { beta: "1", loss_type: "dapo" },
  ]);
});

test("several values of --set are a sweep; a list, a sentence and one value are not", () => {
  const one = [
    "beta=0",
    "reward_clip_range=[-1,1]",
    "distillation_prompt=Yes, {prompt}",
    'chat_template_kwargs={"a":1,"b":2}',
  ];
  expect(splitSettings([...one, "learning_rate=1e-4,3e-4"], ["beta=0,1"])).toEqual({
    set: one,
    sweep: ["learning_rate=1e-4,3e-4", "beta=0,1"],
  });
});

test("a sweep of one value, of none, or of too many jobs is refused", () => {
  for (const wrong of ["beta", "beta=0", "beta=0,", "=1,2"])
    expect(() => trialsOf([wrong])).toThrow(`--sweep: expected NAME=VALUE,VALUE…, not ${JSON.stringify(wrong)}`);
  const ten = Array.from({ length: 10 }, (_, i) => i).join();
  expect(() => trialsOf([`seed=${ten}`, `beta=${ten}`])).toThrow("these are 100 jobs; a sweep has at most 64");
});

test("a trial sets its values beside the others, names its output and has the group of the sweep", () => {
  const body = { output_name: "sums", method: "sft", hyperparameters: { max_steps: 3, beta: 9 } };
  const [, second = {}] = trialsOf(["beta=0,0.5", "loss_type=grpo,a/b"]);
  expect(withTrial(body, second)).toEqual({
    output_name: "sums-0-a-b",
    method: "sft",
    group: "sums",
    hyperparameters: { max_steps: 3, beta: 0, loss_type: "a/b" },
  });
  expect(withTrial({ ...body, group: "own" }, second)["group"]).toBe("own");
  expect(withTrial(body, {})).toBe(body);
  expect(() => withTrial({}, second)).toThrow("--output");
});
