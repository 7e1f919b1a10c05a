import { expect, test } from "bun:test";
import { canGoOn, isDue, pauseAfter, timeoutFor } from "./policy.ts";
import type { Upload } from "./table.ts";

test("a passing failure is tried again with growing pauses, eight times without progress; another one is not", () => {
  const pauses = Array.from({ length: 9 }, (_, attempts) => pauseAfter({ attempts, isPassing: true }));
  expect(pauses.slice(0, 3)).toEqual([2_000, 4_000, 8_000]);
  expect(pauses.slice(6)).toEqual([128_000, undefined, undefined]);
  expect(pauseAfter({ attempts: 0, isPassing: false })).toBeUndefined();
});

test("an upload in parts goes on for the same content while its addresses hold", () => {
  const upload: Upload = { oid: "a", href: "h", parts: ["p"], partBytes: 1, etags: [], at: 1_000 };
  const life = 45 * 60_000;
  expect(canGoOn(upload, "a", 1_000 + life - 1)).toBe(true);
  expect(canGoOn(upload, "a", 1_000 + life)).toBe(false);
  expect(canGoOn(upload, "a", 999)).toBe(false); // the clock was set back
  expect(canGoOn(upload, "b", 1_000)).toBe(false);
  expect(canGoOn(null, "a", 1_000)).toBe(false);
});

test("a wrong clock does not delay the next try, and a large file gets more time", () => {
  expect([isDue(null, 5), isDue(5, 5), isDue(6, 5), isDue(5 + 300_001, 5)]).toEqual([true, true, false, true]);
  expect(timeoutFor(0)).toBe(60_000);
  expect(timeoutFor(5e9)).toBeGreaterThan(24 * 3_600_000);
});
