import { describe, expect, test } from "bun:test";
import { fillers, newSlots, nextAdapter, place, promptBudget, promptShares, type Slot } from "./slots.ts";

type Sketch = { holds?: string; busy?: boolean; usedAt?: number; adapter?: number };
const ids = (text: string) => Int32Array.from(text, (char) => char.charCodeAt(0));
function slots(...sketches: Sketch[]): Slot[] {
  return newSlots(sketches.length, 64).map((slot, i) => {
    const { holds = "", busy = false, usedAt = 0, adapter = 0 } = sketches[i]!;
    slot.tokens.set(ids(holds));
    return { ...slot, length: holds.length, busy, usedAt, adapter };
  });
}
const RULES = { copyMin: 4, reuse: true };
const put = (prompt: string, on: Slot[], rules = RULES) => place(ids(prompt), 0, on, rules);

describe("placement", () => {
  test("waits when every slot is busy", () => {
    expect(put("abc", slots({ busy: true }, { busy: true }))).toBeUndefined();
  });
  test("continues where the same conversation left off", () => {
    const table = slots({ holds: "xyz", usedAt: 1 }, { holds: "hello", usedAt: 9 });
    expect(put("hello world", table)).toEqual({ slot: 1, from: 1, keep: 5 });
  });
  test("leaves the last token of a known prompt to compute: its logits are needed", () => {
    expect(put("hello", slots({ holds: "hello" }))).toEqual({ slot: 0, from: 0, keep: 4 });
  });
  test("copies a beginning out of a busy slot, and out of a free one that holds much more", () => {
    expect(put("hello you", slots({ holds: "hello w", busy: true }, {}))).toEqual({ slot: 1, from: 0, keep: 6 });
    const long = { holds: "hello and a long answer", usedAt: 9 };
    expect(put("hello you", slots(long, {}))).toEqual({ slot: 1, from: 0, keep: 6 });
  });
  test("does not copy a few tokens, but reuses those in its own slot", () => {
    expect(put("abc", slots({ holds: "abxxxxxx", busy: true }, {}))).toEqual({ slot: 1, from: 1, keep: 0 });
    expect(put("abc", slots({ holds: "abxxxxxx" }))).toEqual({ slot: 0, from: 0, keep: 2 });
  });
  test("never reuses what another adapter computed", () => {
    expect(put("hello you", slots({ holds: "hello w", adapter: 3 }))).toEqual({ slot: 0, from: 0, keep: 0 });
  });
  test("keeps nothing if a state cannot be cut back", () => {
    expect(put("hello you", slots({ holds: "hello " }), { ...RULES, reuse: false })?.keep).toBe(0);
  });
  test("gives away the slot unused for longest", () => {
    expect(put("z", slots({ usedAt: 5 }, { usedAt: 2 }, { usedAt: 7 }))?.slot).toBe(1);
  });
  test("stays beside running slots: a gap between them is filled first", () => {
    const table = slots({ usedAt: 1 }, { busy: true }, { usedAt: 9 }, { busy: true }, { usedAt: 0 });
    expect(put("z", table)?.slot).toBe(2);
    table[2]!.busy = true;
    expect(put("z", table)?.slot).toBe(4);
  });
});

test.each([
  ["neighbours need none", "11100", []],
  ["a gap is filled, the ends are not", "01010", [2]],
  ["a wide gap is not", "100001101", [7]],
])("fillers: %s", (_name, working, fill) => {
  expect(
    fillers(
      Array.from(working, (bit) => bit === "1"),
      3,
    ),
  ).toEqual(fill);
});

test.each([
  ["an idle engine takes what it reads in 400 ms", { decoding: 0, reading: 3, promptMsPerToken: 2 }, 200],
  ["or the whole batch", { decoding: 0, reading: 3, promptMsPerToken: 0.1 }, 512],
  ["running streams are delayed by about 60 ms", { decoding: 4, reading: 2, promptMsPerToken: 1 }, 60],
  ["longer when more wait than run", { decoding: 4, reading: 12, promptMsPerToken: 1 }, 180],
  ["but never very long", { decoding: 1, reading: 99, promptMsPerToken: 1 }, 240],
  ["a slow machine still gets on", { decoding: 4, reading: 1, promptMsPerToken: 50 }, 16],
  ["without streams its batches stay large", { decoding: 0, reading: 1, promptMsPerToken: 50 }, 64],
  ["a fast one fills the batch", { decoding: 12, reading: 1, promptMsPerToken: 0.01 }, 500],
  ["before the first measurement it is careful", { decoding: 1, reading: 1, promptMsPerToken: 0 }, 64],
])("%s", (_name, load, tokens) => expect(promptBudget({ ...load, batchTokens: 512 })).toBe(tokens));

test.each([
  ["the oldest first", [100, 100], 128, [100, 28]],
  ["a short one goes before a long one", [1000, 8], 128, [120, 8]],
  ["short ones leave half to the oldest", [1000, 30, 30, 30], 100, [50, 30, 20, 0]],
  ["what is left over goes round again", [10, 30, 30, 30], 100, [10, 30, 30, 30]],
  ["no prompt gets more than it has", [5], 512, [5]],
])("shares: %s", (_name, left, budget, shares) => expect(promptShares(left, budget)).toEqual(shares));

test.each([
  ["nothing to run", [], 0, 0, undefined],
  ["stays with the current adapter for its turn", [2, 1, 2], 1, 3, 1],
  ["then the next in line", [2, 1, 3], 1, 8, 2],
  ["continues when no other waits", [1, 1], 1, 99, 1],
  ["leaves an adapter without sequences", [3], 1, 1, 3],
])("adapters: %s", (_name, waiting, current, so_far, next) => {
  expect(nextAdapter(waiting, current, so_far, 8)).toBe(next as number);
});
