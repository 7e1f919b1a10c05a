import { expect, test } from "bun:test";
import { Pace } from "./pace.ts";

test("S1 pace: the load gives an expectation for a prompt of any length", () => {
  const pace = new Pace();
  expect(pace.expectedMs(64)).toBe(0);
  pace.decoded({ tokens: 2, prompts: 2, ms: 60_000 }); // reads the weights from the disk
  pace.decoded({ tokens: 1, prompts: 1, ms: 140 });
  expect(pace.promptMsPerToken).toBe(0);
  expect(pace.expectedMs(64)).toBe(140 + 64 * 140);
});

test("S1 pace: a measured prompt replaces the estimate, and both follow slowly", () => {
  const pace = new Pace();
  for (const ms of [50, 10]) pace.decoded({ tokens: 1, prompts: 1, ms });
  pace.decoded({ tokens: 64, prompts: 64, ms: 128 });
  expect(pace.expectedMs(100)).toBe(10 + 100 * 2);
  pace.decoded({ tokens: 64, prompts: 64, ms: 64 * 12 });
  expect(pace.promptMsPerToken).toBe(4);
  pace.decoded({ tokens: 8, prompts: 0, ms: 20 });
  expect(pace.expectedMs(0)).toBe(12);
});
