import { expect, test } from "bun:test";
import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";
import { bodyOf, type Form, formOf, rewardRow, rowsOf, START, trialOf } from "./evaluator_form.ts";

const made = (form: Partial<Form>) => bodyOf({ ...START, name: "e", ...form });
const configOf = (form: Partial<Form>) => {
  const result = made(form);
  return "config" in result ? result.config : result;
};

test("each kind sends its own settings, and others as JSON", () => {
  expect(configOf({})).toEqual({ operation: "contains", value: null, ignore_case: true });
  expect(configOf({ kind: "json_schema", schema: '{"type": "object"}', more: '{"fenced": false}' })).toEqual({
    schema: { type: "object" },
    fenced: false,
  });
  expect(configOf({ kind: "llm_judge", deployment: "judge", rubric: "r", more: '{"mode": "labels"}' })).toEqual({
    deployment: "judge",
    rubric: "r",
    scale: { min: 1, max: 5 },
    mode: "labels",
  });
  expect(made({ kind: "code", threshold: "0.5" })).toMatchObject({ body: { pass_threshold: 0.5 } });
  expect(made({ threshold: "x" })).toEqual({ fault: "Passes from: write a number." });
  expect(made({ kind: "reward_function", params: "[1]" })).toEqual({
    fault: "Parameters: write a JSON object, in braces.",
  });
});

test("a stored evaluator becomes the same request again", () => {
  const stored: Evaluator = {
    object: "evaluator",
    id: "evl_1",
    name: "judge",
    version: 2,
    kind: "llm_judge",
    description: null,
    config: { deployment: "d", rubric: "r", scale: { min: 0, max: 9 }, labels: null, explain: false },
    pass_threshold: 7,
    metadata: {},
    created_at: "",
  };
  expect(bodyOf(formOf(stored))).toMatchObject({
    body: {
      name: "judge",
      kind: "llm_judge",
      pass_threshold: 7,
      config: { deployment: "d", rubric: "r", scale: { min: 0, max: 9 }, explain: false },
    },
  });
});

test("a try of settings runs what the evaluator will run, on the columns that it will see", () => {
  const config = { schema: { type: "object" } };
  expect(trialOf({ ...START, kind: "json_schema" }, config)).toEqual({
    reward_functions: [{ id: "json_schema", params: config }],
  });
  expect(trialOf(START, {})).toBeUndefined();
  const [row = {}] = rowsOf('\n{"input": "a", "output": "b", "reference": "c", "level": 1}\n');
  expect(rewardRow(row, config)).toEqual({
    prompt: "a",
    completion: "b",
    reference: "c",
    answer: "c",
    level: 1,
    ...config,
  });
  expect(() => rowsOf('{"output": "b"}\n{"input": "a"}')).toThrow("Line 2: write an object with the text output.");
});
