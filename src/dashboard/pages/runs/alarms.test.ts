import { expect, test } from "bun:test";
import { grouped, marksOf } from "./alarms.ts";

const alarm = (step: number, type = "entropy_collapse") => ({ step, type, message: `m${step}`, at: "" });

test("alarms of one type are one group with its steps and the newest message", () => {
  expect(grouped([alarm(71), alarm(80, "truncation"), alarm(86), alarm(86), alarm(90)])).toEqual([
    { type: "entropy_collapse", steps: [71, 86, 90], message: "m90" },
    { type: "truncation", steps: [80], message: "m80" },
  ]);
  expect(grouped([])).toEqual([]);
});

test("only the first mark of a type has its words, and a step has one mark", () => {
  expect(marksOf([alarm(1), alarm(1, "truncation"), alarm(2), alarm(3, "truncation")])).toEqual([
    { x: 1, label: "explores little, answers cut off" },
    { x: 2, label: "" },
    { x: 3, label: "" },
  ]);
});
