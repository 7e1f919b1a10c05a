import { expect, test } from "bun:test";
import { openRandom } from "../../lib/random.ts";
import { PAGE } from "../../native/cuda/decode/kernels.ts";
import { type Lease, PageTable } from "./pages.ts";

const tokens = (count: number, seed = 0) => Int32Array.from({ length: count }, (_, i) => seed * 1000 + i);

test("the same beginning shares whole pages and copies the one that is partly filled", () => {
  const pages = new PageTable(16);
  const first = pages.admit(tokens(2 * PAGE + 5), 3 * PAGE)!;
  expect([first.cached, first.copies, first.table.length]).toEqual([0, [], 3]);
  const second = pages.admit(tokens(2 * PAGE + 5), 3 * PAGE)!;
  expect(second.table.slice(0, 2)).toEqual(first.table.slice(0, 2));
  expect(second.table[2]).not.toBe(first.table[2]);
  expect([second.cached, second.copies]).toEqual([2 * PAGE + 5, [[first.table[2]!, second.table[2]!]]]);
  const other = pages.admit(tokens(2 * PAGE + 9), 3 * PAGE)!;
  expect([other.cached, other.copies]).toEqual([2 * PAGE, []]);
  expect(pages.available).toBe(16 - 5);
});

test("a page differs if any token before it differs", () => {
  const pages = new PageTable(16);
  pages.admit(tokens(2 * PAGE), 2 * PAGE);
  const changed = tokens(2 * PAGE);
  changed[0] = -1;
  expect(pages.admit(changed, 2 * PAGE)!.cached).toBe(0);
});

test("admission waits for room for the longest answer, and growth then never fails", () => {
  const pages = new PageTable(4);
  const one = pages.admit(tokens(1), 3 * PAGE)!;
  expect(pages.admit(tokens(1, 1), 2 * PAGE)).toBeNull();
  const two = pages.admit(tokens(1, 1), PAGE)!;
  expect(pages.available).toBe(0);
  for (let position = 0; position < 3 * PAGE; position++)
    expect(pages.grow(one, position)).toBe(position > 0 && position % PAGE === 0 ? position / PAGE : -1);
  expect(() => pages.grow(one, 3 * PAGE)).toThrow("more pages than it has reserved");
  pages.release(two);
  expect(pages.available).toBe(1);
});

test("released pages are found again until their room is needed", () => {
  const pages = new PageTable(4);
  pages.release(pages.admit(tokens(2 * PAGE), 2 * PAGE)!);
  expect(pages.available).toBe(4);
  const again = pages.admit(tokens(2 * PAGE), 2 * PAGE)!;
  expect(again.cached).toBe(2 * PAGE);
  pages.release(again);
  pages.release(pages.admit(tokens(4 * PAGE, 1), 4 * PAGE)!);
  expect(pages.admit(tokens(2 * PAGE), 2 * PAGE)!.cached).toBe(0);
});

test("idle pages that an admission shares do not count as room for it", () => {
  const pages = new PageTable(3);
  pages.release(pages.admit(tokens(2 * PAGE), 2 * PAGE)!);
  expect(pages.admit(tokens(2 * PAGE), 4 * PAGE)).toBeNull();
  expect(pages.admit(tokens(2 * PAGE), 3 * PAGE)!.cached).toBe(2 * PAGE);
});

test("a partly filled page without a user is continued, not copied", () => {
  const pages = new PageTable(2);
  const first = pages.admit(tokens(PAGE / 2), PAGE)!;
  const [page] = first.table;
  pages.release(first);
  pages.admit(tokens(PAGE, 1), PAGE);
  const again = pages.admit(tokens(PAGE / 2), PAGE)!;
  expect([again.table, again.cached, again.copies]).toEqual([[page!], PAGE / 2, []]);
  expect(pages.available).toBe(0);
});

test("what was never filled is not found again", () => {
  const pages = new PageTable(4);
  pages.release(pages.admit(tokens(2 * PAGE + 5), 3 * PAGE)!, PAGE + 3);
  expect(pages.admit(tokens(2 * PAGE + 5), 3 * PAGE)!.cached).toBe(PAGE);
});

test("no page is lost or used twice over random lives", () => {
  const random = openRandom(4);
  const pages = new PageTable(40);
  const live: { lease: Lease; length: number; total: number; prompt: number }[] = [];
  for (let step = 0; step < 4000; step++) {
    const draw = random();
    if (draw < 0.2) {
      const prompt = 1 + Math.floor(random() * 90);
      const total = prompt + Math.floor(random() * 90);
      const lease = pages.admit(tokens(prompt, Math.floor(random() * 3)), total);
      if (lease) live.push({ lease, length: prompt, total, prompt });
    } else if (draw < 0.3 && live.length > 0) {
      pages.release(live.splice(Math.floor(random() * live.length), 1)[0]!.lease);
    } else for (const each of live) if (each.length < each.total) pages.grow(each.lease, each.length++);
    // A page that is written to belongs to one sequence.
    const writers = live.flatMap(({ lease, prompt }) => lease.table.slice(Math.floor(prompt / PAGE)));
    expect(new Set(writers).size).toBe(writers.length);
    expect(pages.available).toBeGreaterThanOrEqual(0);
  }
  for (const { lease } of live) pages.release(lease);
  expect(pages.available).toBe(40);
});

test("held pages keep their content after their sequence has ended, until they are dropped", () => {
  const pages = new PageTable(2);
  const lease = pages.admit(tokens(2 * PAGE), 2 * PAGE)!;
  const held = [...lease.table];
  pages.hold(held);
  pages.release(lease);
  expect([pages.available, pages.admit(tokens(PAGE, 1), PAGE)]).toEqual([0, null]);
  expect(pages.admit(tokens(2 * PAGE), 2 * PAGE)?.cached).toBe(2 * PAGE); // others may still share them
  pages.drop(held);
  expect(pages.available).toBe(0);
});
