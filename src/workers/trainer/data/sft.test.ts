import { expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { type LossScope, lossMask, type Segment, sftMetrics, weighSequence } from "./sft.ts";

const scope: LossScope = { completionOnly: true, assistantOnly: false, maxLength: 100 };
const segments: Segment[] = [
  { tokens: 2, role: "prompt" },
  { tokens: 3, role: "completion" },
];
const talk: Segment[] = [
  { tokens: 2, role: "prompt" },
  { tokens: 1, role: "assistant" },
  { tokens: 1, role: "prompt" },
  { tokens: 2, role: "assistant" },
];

test("completion-only leaves the prompt out; otherwise all tokens but the first count", () => {
  expect([...lossMask(segments, scope)]).toEqual([0, 0, 1, 1, 1]);
  expect([...lossMask(segments, { ...scope, completionOnly: false })]).toEqual([0, 1, 1, 1, 1]);
});

test("assistant-only keeps the assistant's turns of a conversation", () => {
  expect([...lossMask(talk, { ...scope, completionOnly: false, assistantOnly: true })]).toEqual([0, 0, 1, 0, 1, 1]);
});

test("a sequence longer than max_length is cut at the end, and a prompt alone has nothing to learn", () => {
  expect([...lossMask(segments, { ...scope, maxLength: 4 })]).toEqual([0, 0, 1, 1]);
  expect([...lossMask(segments, { ...scope, maxLength: 2 })]).toEqual([0, 0]);
  expect([...lossMask([], scope)]).toEqual([]);
});

test("the loss is the mean over the step's tokens: 3 of one sequence and 1 of another", () => {
  const long = {
    logp: [0, -9, -1, -2, -3],
    mask: lossMask(segments, scope),
    correct: Uint8Array.of(0, 1, 1, 0, 0),
    entropy: null,
  };
  const short = { logp: [0, -6], mask: Uint8Array.of(0, 1), correct: Uint8Array.of(0, 1), entropy: [9, 0.5] };
  const weighed = [long, short].map((each) => weighSequence(each, 4));
  expect(weighed.map(({ weights }) => [...weights])).toEqual([
    [0, 0, 0.25, 0.25, 0.25],
    [0, 0.25],
  ]);
  // (1 + 2 + 3 + 6) / 4 = 3; right were 1 of 3 and 1 of 1
  expect(sftMetrics(weighed.map(({ tally }) => tally))).toEqual({ loss: 3, mean_token_accuracy: 0.5, entropy: 0.5 });
});

test("the weights are the derivative of the loss", () => {
  const random = openRandom(2);
  for (let round = 0; round < 50; round++) {
    const mask = Uint8Array.from({ length: 6 }, () => (random() < 0.5 ? 1 : 0));
    const logp = Array.from({ length: 6 }, () => -random());
    const { weights } = weighSequence({ logp, mask, correct: null, entropy: null }, 17);
    for (let t = 0; t < 6; t++) {
      const lossAt = (by: number) =>
        weighSequence(
          { logp: logp.map((value, u) => value + (u === t ? by : 0)), mask, correct: null, entropy: null },
          17,
        ).loss;
      expect(-weights[t]!).toBeCloseTo((lossAt(0.5) - lossAt(-0.5)) / 1, 7);
    }
  }
});
