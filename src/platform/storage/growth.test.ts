import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir, until } from "../../../test/harness.ts";
import type { Meter } from "../files.ts";
import { fileSize, watchGrowth } from "./growth.ts";

/** Takes up to `most` bytes. */
function meterOf(most: number) {
  const taken: number[] = [];
  const take = (bytes: number) => {
    if (taken.reduce((sum, each) => sum + each, bytes) > most) throw new Error("full");
    taken.push(bytes);
  };
  return { taken, meter: { take } as Meter };
}

test("what was added is taken, and a file that shrinks gives nothing back", () => {
  const { meter, taken } = meterOf(100);
  let size = 10;
  using growth = watchGrowth(
    meter,
    () => size,
    () => {},
  );
  for (size of [10, 10, 4, 9, 15]) growth.check();
  expect(taken).toEqual([10, 5]);
});

test("a refusal is reported once, and every later check throws it", async () => {
  const { meter, taken } = meterOf(100);
  let size = 60;
  const refusals: unknown[] = [];
  using growth = watchGrowth(
    meter,
    () => size,
    (reason) => refusals.push(reason),
  );
  growth.check();
  size = 200;
  await until("the meter refuses", () => refusals.length > 0);
  size = 70;
  expect(() => growth.check()).toThrow("full");
  expect([refusals.map(String), taken]).toEqual([["Error: full"], [60]]);
});

test("a file that does not exist yet has no bytes", () => {
  const path = join(tempDir(), "file");
  expect(fileSize(path)).toBe(0);
  writeFileSync(path, "12345");
  expect(fileSize(path)).toBe(5);
});
