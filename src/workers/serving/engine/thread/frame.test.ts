import { expect, test } from "bun:test";
import { FrameWriter, NO_END, readFrame } from "./frame.ts";

test("the reader gets the written values in order, and the writer starts again", () => {
  const writer = new FrameWriter();
  const counters = { decodeCalls: 1, promptTokens: 2, cachedTokens: 3, completionTokens: 4 };
  const seen: unknown[][] = [];
  const reader = {
    token: (...event: unknown[]) => seen.push(["token", ...event]),
    logprobs: (id: number, token: number, logprob: number, top: Float64Array) =>
      seen.push(["logprobs", id, token, logprob, ...top]),
    prompted: (...event: unknown[]) => seen.push(["prompted", ...event]),
    finish: (...event: unknown[]) => seen.push(["finish", ...event]),
  };
  writer.prompted(7, 100);
  for (let i = 0; i < 2000; i++) writer.token(7, i);
  writer.logprobs(8, 5, -0.5, [5, -0.5, 9, -1.5]);
  writer.finish(7, "length", NO_END);
  writer.finish(8, "stop", { token: 2, logprob: -3 });
  expect(readFrame(writer.take(counters), reader)).toEqual(counters);
  expect(writer.empty).toBe(true);
  expect(seen).toHaveLength(2004);
  expect([seen[0], seen[1], seen[2000]]).toEqual([
    ["prompted", 7, 100],
    ["token", 7, 0],
    ["token", 7, 1999],
  ]);
  expect(seen.slice(2001)).toEqual([
    ["logprobs", 8, 5, -0.5, 5, -0.5, 9, -1.5],
    ["finish", 7, "length", NO_END],
    ["finish", 8, "stop", { token: 2, logprob: -3 }],
  ]);
});
