import { describe, expect, test } from "bun:test";
import { AppError } from "../../../lib/errors.ts";
import { afterFault, dueRows, failureOf, isRegression, MAX_ATTEMPTS, targetOrder } from "./policy.ts";

test("the baseline is run first, the others in their order", () => {
  expect(targetOrder(4, 2)).toEqual([2, 0, 1, 3]);
  expect(targetOrder(1, 0)).toEqual([0]);
});

test("a row is due until its item has ended", () => {
  const rows = [1, 2, 3, 4].map((rowId) => ({ rowId }));
  expect(dueRows(rows, new Set([2, 4]))).toEqual([{ rowId: 1 }, { rowId: 3 }]);
  expect(dueRows(rows, new Set([1, 2, 3, 4]))).toEqual([]);
});

test("a regression is a lower score; a missing score is none", () => {
  expect([isRegression(0, 1), isRegression(0.4, 0.5)]).toEqual([true, true]);
  expect([isRegression(1, 1), isRegression(1, 0), isRegression(null, 1), isRegression(0, null)]).toEqual(
    Array(4).fill(false),
  );
});

describe("after a fault", () => {
  const fault = (code: ConstructorParameters<typeof AppError>[0]) => new AppError(code, "x");

  test("a deployment that wakes or waits for memory is asked again without a limit, at most every 15 seconds", () => {
    for (const code of ["deployment_waking", "no_capacity", "rate_limited"] as const)
      expect(afterFault(fault(code), 100)).toEqual({ kind: "retry", pauseMs: 15_000 });
    expect(afterFault(fault("no_capacity"), 1)).toEqual({ kind: "retry", pauseMs: 500 });
  });

  test("a prompt that loses its replica every time ends as an error of its item", () => {
    expect(afterFault(fault("worker_failed"), MAX_ATTEMPTS - 1).kind).toBe("retry");
    expect(afterFault(fault("worker_failed"), MAX_ATTEMPTS).kind).toBe("item");
  });

  test("trouble of the server's disk is no result: the experiment pauses", () => {
    expect(afterFault(fault("storage_unavailable"), 100).kind).toBe("server");
  });

  test("a target that cannot answer any row ends the experiment; a row that it rejects does not", () => {
    expect(afterFault(fault("unsupported_state"), 1).kind).toBe("experiment");
    expect(afterFault(fault("insufficient_credits"), 1).kind).toBe("experiment");
    expect(afterFault(fault("context_length_exceeded"), 1).kind).toBe("item");
    expect(afterFault(new TypeError("bug"), 1).kind).toBe("item");
  });
});

test("an experiment fails if one target has nothing but errors", () => {
  const some = { name: "base", items: 3, failed: 2 };
  expect(failureOf([some])).toBeUndefined();
  expect(failureOf([some, { name: "tuned", items: 3, failed: 3 }])).toContain("Every item of tuned has an error");
  expect(failureOf([{ name: "base", items: 0, failed: 0 }])).toBeUndefined();
});
