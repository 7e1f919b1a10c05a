import { expect, test } from "bun:test";
import { clockText, dateText, instantText, intervalText } from "./time.ts";

const DAY_MS = 86_400_000;

test("dates are those of the calendar, also before 1970 and in leap years", () => {
  for (let day = -800_000; day < 800_000; day += 397)
    expect(dateText(day)).toBe(`"${new Date(day * DAY_MS).toISOString().replace(/T.*/, "")}"`);
  for (const year of [-4, 0, 1900, 1970, 2000, 2024, 2100])
    for (let day = -1; day < 400; day++) {
      const at = new Date(0);
      at.setUTCFullYear(year, 0, 1 + day);
      expect(dateText(at.getTime() / DAY_MS)).toBe(`"${at.toISOString().replace(/T.*/, "")}"`);
    }
});

test("years that Date does not have", () => {
  expect(dateText(365_242_500 * 2 - 719_468)).toBe('"+2000000-03-01"');
  expect(dateText(-719_528)).toBe('"0000-01-01"');
  expect(dateText(-719_529)).toBe('"-000001-12-31"');
  expect([dateText(2_932_896), dateText(2_932_897)]).toEqual(['"9999-12-31"', '"+010000-01-01"']);
});

test("instants keep their decimals, or have none", () => {
  expect(instantText(0n, 1000n, true)).toBe('"1970-01-01T00:00:00Z"');
  expect(instantText(-1n, 1000n, false)).toBe('"1969-12-31T23:59:59.999"');
  expect(instantText(86_399_000_001n, 1_000_000n, true)).toBe('"1970-01-01T23:59:59.000001Z"');
  expect(instantText(-86_400_000_000_000n, 1_000_000_000n, true)).toBe('"1969-12-31T00:00:00Z"');
  expect(instantText(1_582_934_400_123n, 1000n, true)).toBe('"2020-02-29T00:00:00.123Z"');
});

test("clocks and intervals", () => {
  expect(clockText(3_661_000n, 1000n, false)).toBe('"01:01:01"');
  expect(clockText(86_399_999_999n, 1_000_000n, true)).toBe('"23:59:59.999999Z"');
  const bytes = new Uint8Array(13);
  const view = new DataView(bytes.buffer, 1);
  view.setUint32(0, 14, true);
  view.setUint32(4, 3, true);
  view.setUint32(8, 1500, true);
  expect(intervalText(bytes.subarray(1))).toBe('"P14M3DT1.5S"');
  expect(() => intervalText(bytes)).toThrow("an interval has 13 bytes");
});
