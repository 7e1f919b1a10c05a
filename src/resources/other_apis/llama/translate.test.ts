import { expect, test } from "bun:test";
import type { Completion } from "../../../lib/chat/completion.ts";
import { fromInfill, fromNative, toNative } from "./translate.ts";

const native = (fields: object) => fromNative({ prompt: "a", ...fields } as Parameters<typeof fromNative>[0]);

test("the limit of tokens has two names, and none of them means no limit", () => {
  const limits = [{ n_predict: 5, max_tokens: 7 }, { max_tokens: 7 }, { n_predict: 0 }, {}].map(
    (fields) => native(fields).max_tokens,
  );
  expect(limits).toEqual([5, 7, 0, -1]);
  expect(native({ n_predict: 1 })).toEqual({ prompt: "a", max_tokens: 1 });
});

test("a gap has files, prefix and prompt before it, and always something behind it", () => {
  const input_extra = [{ filename: "a.ts", text: "x" }, { text: "y" }];
  expect(
    fromInfill({ input_prefix: "if (", input_suffix: ")", input_extra, prompt: "not ", n_predict: 3 } as Parameters<
      typeof fromInfill
    >[0]),
  ).toEqual({ prompt: "a.ts\nx\n\ny\nif (not ", suffix: ")", max_tokens: 3 });
  const open = { input_prefix: "if (", input_suffix: "" } as Parameters<typeof fromInfill>[0];
  expect(fromInfill(open)).toEqual({ prompt: "if (", suffix: "\n", max_tokens: -1 });
});

const choice = { index: 0, text: "hi", logprobs: null, finish_reason: null };
const answer = (more: object) => toNative({ model: "m", choices: [choice], ...more } as unknown as Completion);

test("a part of an answer has not stopped, and the last one says why", () => {
  expect(answer({})).toEqual({ content: "hi", stop: false, model: "m" });
  const ended = (finish_reason: string) => answer({ choices: [{ ...choice, finish_reason }] });
  expect(ended("stop")).toEqual({ content: "hi", stop: true, model: "m", stop_type: "eos", truncated: false });
  expect(ended("length")).toMatchObject({ stop: true, stop_type: "limit" });
  expect(answer({ choices: [] })).toEqual({ content: "", stop: false, model: "m" });
});

test("tokens are counted, with those of the cache", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
  const counted = { tokens_evaluated: 9, tokens_predicted: 2 };
  expect(answer({ usage })).toMatchObject({ ...counted, tokens_cached: 0 });
  const cached = { ...usage, prompt_tokens_details: { cached_tokens: 8 } };
  expect(answer({ usage: cached, timings: { a: 1 } })).toMatchObject({
    ...counted,
    tokens_cached: 8,
    timings: { a: 1 },
  });
});

test("probabilities stand beside their tokens", () => {
  const logprobs = {
    tokens: ["a", "b"],
    token_logprobs: [-0.5],
    top_logprobs: [{ a: -0.5, c: -2 }],
    text_offset: [0, 1],
  };
  expect(answer({ choices: [{ ...choice, logprobs }] })).toMatchObject({
    completion_probabilities: [
      {
        token: "a",
        logprob: -0.5,
        top_logprobs: [
          { token: "a", logprob: -0.5 },
          { token: "c", logprob: -2 },
        ],
      },
      { token: "b", logprob: null, top_logprobs: [] },
    ],
  });
});
