import { expect, test } from "bun:test";
import { boundedPriority, PRIORITIES, rankOf } from "./priority.ts";

test("a wish counts as far as the limit allows", () => {
  expect(PRIORITIES.map(rankOf)).toEqual([0, 1, 2, 3]);
  expect(boundedPriority(null, null)).toBeNull();
  expect(boundedPriority("interactive", null)).toBe("interactive");
  expect(boundedPriority(null, "batch")).toBe("batch");
  expect(boundedPriority("interactive", "batch")).toBe("batch");
  expect(boundedPriority("rollout", "batch")).toBe("rollout");
});
