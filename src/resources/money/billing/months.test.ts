import { expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { byMonth, monthOf, monthStart, nextMonthStart } from "./months.ts";

const at = (text: string) => Date.parse(text);

test("a month is one of UTC", () => {
  const last = at("2026-12-31T23:59:59.999Z");
  expect([monthOf(last), monthOf(last + 1)]).toEqual(["2026-12", "2027-01"]);
  expect([monthStart(last), nextMonthStart(last)]).toEqual([at("2026-12-01T00:00:00Z"), last + 1]);
});

test("an amount is split by the time in each month, to the last unit", () => {
  const until = at("2026-03-01T01:00:00Z");
  expect(byMonth({ until, ms: 4 * 3_600_000, amount: 1_001 })).toEqual([
    { month: "2026-02", amount: 750 },
    { month: "2026-03", amount: 251 },
  ]);
  expect(byMonth({ until, ms: 1_000, amount: 7 })).toEqual([{ month: "2026-03", amount: 7 }]);
  const random = openRandom(4);
  for (let round = 0; round < 300; round++) {
    const ms = 1 + Math.floor(random() * 200 * 86_400_000);
    const amount = Math.floor(random() * 10 ** (random() * 15));
    const shares = byMonth({ until: until + Math.floor(random() * 1e10), ms, amount });
    expect(shares.reduce((sum, share) => sum + share.amount, 0)).toBe(amount);
    expect(shares.every((share) => share.amount >= 0 && Number.isSafeInteger(share.amount))).toBe(true);
    expect(new Set(shares.map(({ month }) => month)).size).toBe(shares.length);
  }
});
