import { expect, test } from "bun:test";
import { CreateExperiment } from "../../../resources/quality/experiments/schema.ts";
import { bodyOf, type Form, isReady, namesOf } from "./form.ts";

const form: Form = {
  name: " ",
  dataset: "ds_1",
  snapshot: "@snap-2",
  evaluators: ["exact"],
  baseline: 1,
  targets: [
    { type: "deployment", value: "dep_1", name: "" },
    { type: "outputs", value: " answer ", name: "recorded" },
  ],
  maxRows: "10",
  referenceField: "",
  systemPrompt: "",
  temperature: "0.5",
  maxTokens: "",
};

test("a form becomes a request that the API takes", () => {
  const body = bodyOf(form, ["demo", "recorded"]);
  expect(CreateExperiment.parse(JSON.parse(JSON.stringify(body)))).toMatchObject({
    dataset: "ds_1@snap-2",
    targets: [
      { type: "deployment", deployment: "dep_1", name: "demo" },
      { type: "outputs", field: "answer", name: "recorded" },
    ],
    baseline: "recorded",
    max_rows: 10,
    params: { temperature: 0.5 },
  });
});

test("two targets of one name get a number, and a form without a target's value is not ready", () => {
  const same = [form.targets[0], form.targets[0]].flatMap((target) => target ?? []);
  expect(namesOf(same, () => "demo")).toEqual(["demo", "demo 2"]);
  expect(isReady(form)).toBe(true);
  expect(isReady({ ...form, targets: [{ type: "model", value: " ", name: "" }] })).toBe(false);
  expect(isReady({ ...form, evaluators: [] })).toBe(false);
});
