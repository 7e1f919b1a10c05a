import { expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { costOf, priceOf } from "./charge.ts";

test("an hour costs the rate, and nothing without a rate", () => {
  expect(costOf(36_000_000, 3_600_000)).toBe(36_000_000);
  expect(costOf(1_000_000, 1)).toBe(0);
  expect(costOf(null, 3_600_000)).toBe(0);
  expect(costOf(1_000_000, -5)).toBe(0);
  expect(priceOf({ ratePerHourMicros: null, ms: 3_600_000, remainder: 7 })).toEqual({ micros: 0, remainder: 7 });
  expect(priceOf({ ratePerHourMicros: 1_000_000, ms: -5, remainder: 0 })).toEqual({ micros: 0, remainder: 0 });
});

test("sixty minutes at a dollar an hour are one dollar", () => {
  let remainder = 0;
  let total = 0;
  for (let minute = 0; minute < 60; minute++) {
    const price = priceOf({ ratePerHourMicros: 1_000_000, ms: 60_000, remainder });
    total += price.micros;
    remainder = price.remainder;
  }
  expect({ total, remainder }).toEqual({ total: 1_000_000, remainder: 0 });
});

test("the sum is exact for every division of the use into stretches and for all rates", () => {
  const random = openRandom(1);
  for (let round = 0; round < 200; round++) {
    let exact = 0n;
    let total = 0;
    let remainder = 0;
    for (let n = 0; n < 50; n++) {
      const ratePerHourMicros = Math.floor(random() * 10 ** (random() * 12));
      const ms = Math.floor(random() * 10 ** (random() * 9));
      exact += BigInt(ratePerHourMicros) * BigInt(ms);
      const price = priceOf({ ratePerHourMicros, ms, remainder });
      total += price.micros;
      remainder = price.remainder;
    }
    expect(BigInt(total)).toBe(exact / 3_600_000n);
    expect(BigInt(remainder)).toBe(exact % 3_600_000n);
  }
});
