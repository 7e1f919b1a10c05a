import { expect, test } from "bun:test";
import { StepRecord, type TrainSample } from "../../protocol_trainer.ts";
import { createJournal } from "./journal.ts";

const sample: TrainSample = {
  prompt: "p",
  completion: "c".repeat(100),
  reward: 1,
  sub_rewards: {},
  advantage: null,
  tokens: 1,
  truncated: false,
  error: null,
};
const record = (step: number): StepRecord => ({
  time: step,
  step,
  epoch: 0,
  values: { loss: 1 / step },
  samples: [sample],
  alarms: [],
});
const read = (text: string) =>
  text
    .trim()
    .split("\n")
    .filter(Boolean)
    .map((line) => StepRecord.parse(JSON.parse(line)));

test("D9 the journal has every step since the last checkpoint, and drops the oldest samples first", () => {
  const journal = createJournal(3 * JSON.stringify([sample]).length);
  for (let step = 1; step <= 5; step++) journal.add(record(step));
  const records = read(journal.text());
  expect(records.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
  expect(records.map(({ samples }) => samples.length)).toEqual([0, 0, 1, 1, 1]);
  expect(records[0]?.values).toEqual({ loss: 1 });
  journal.clear();
  expect(journal.text()).toBe("");
  journal.add(record(6));
  expect(read(journal.text())).toEqual([record(6)]);
});
