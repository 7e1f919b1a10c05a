import { expect, test } from "bun:test";
import { openRandom } from "../../../../lib/random.ts";
import { compareTurns, inOrder, type Waiting } from "./queue_order.ts";

const waiting = (id: string, more: Partial<Waiting> = {}): Waiting => ({
  id,
  workspaceId: "a",
  priority: 0,
  queuedAt: 0,
  notBefore: 0,
  region: "local",
  ...more,
});
const order = (queue: readonly Waiting[], running: readonly string[], now: number) =>
  [...inOrder(queue, { running }, now)].map(({ id }) => id).join(" ");

test("a higher priority goes first, then the job that came first", () => {
  const queue = [waiting("late", { queuedAt: 9 }), waiting("early", { queuedAt: 1 }), waiting("high", { priority: 1 })];
  expect(order(queue, [], 10)).toBe("high early late");
});

test("the workspace with the fewest running jobs is next, and each start counts", () => {
  const queue = [waiting("a1"), waiting("a2", { queuedAt: 1 }), waiting("b1", { workspaceId: "b", queuedAt: 2 })];
  expect(order(queue, [], 10)).toBe("a1 b1 a2");
  expect(order(queue, ["a"], 10)).toBe("b1 a1 a2");
});

test("S7: neither a thousand older jobs nor a high priority shut another workspace out", () => {
  const hostile = Array.from({ length: 1_000 }, (_, i) => waiting(`a${i}`, { priority: 1 }));
  const queue = [...hostile, waiting("small", { workspaceId: "b", queuedAt: 9 })];
  const first = (lastStarts: ReadonlyMap<string, number>) =>
    inOrder(queue, { running: [], lastStarts }, 10).next().value?.id;
  expect(first(new Map())).toBe("a0");
  expect(first(new Map([["a", 1]]))).toBe("small"); // one job runs at a time, and it was the turn of the other before
  expect(order(queue, ["a"], 10)).toStartWith("small ");
});

test("a job that waits after a crash is skipped until its time", () => {
  const queue = [waiting("crashed", { notBefore: 20 }), waiting("other", { queuedAt: 5 })];
  expect(order(queue, [], 10)).toBe("other");
  expect(order(queue, [], 20)).toBe("crashed other");
});

test("D6 clock ahead at the time of a crash: the job does not wait for the wrong date", () => {
  expect(order([waiting("crashed", { notBefore: 10 + 30_000 })], [], 10)).toBe("");
  expect(order([waiting("crashed", { notBefore: 365 * 86_400_000 })], [], 10)).toBe("crashed");
});

/** The definition of the order: the best of those that are left, again and again. Quadratic. */
function reference(queue: readonly Waiting[], running: readonly string[], now: number): Waiting[] {
  const held = new Map<string, number>();
  const add = (workspaceId: string) => held.set(workspaceId, (held.get(workspaceId) ?? 0) + 1);
  for (const workspaceId of running) add(workspaceId);
  const share = (each: Waiting) => held.get(each.workspaceId) ?? 0;
  const isBefore = (a: Waiting, b: Waiting) => {
    const isSame = a.workspaceId === b.workspaceId;
    const by = (isSame ? 0 : share(a) - share(b)) || b.priority - a.priority || a.queuedAt - b.queuedAt;
    return by < 0 || (by === 0 && a.id < b.id);
  };
  let left = queue.filter(({ notBefore }) => notBefore <= now);
  const found: Waiting[] = [];
  while (left.length > 0) {
    const next = left.reduce((best, each) => (isBefore(each, best) ? each : best));
    left = left.filter((each) => each !== next);
    add(next.workspaceId);
    found.push(next);
  }
  return found;
}

test("D1: the order is that of the quadratic definition, for 2,000 random queues", () => {
  const random = openRandom(17);
  const below = (limit: number) => Math.floor(random() * limit);
  for (let round = 0; round < 2_000; round++) {
    const workspaces = 1 + below(5);
    const queue = Array.from({ length: below(25) }, (_, i) =>
      waiting(`job_${(below(1e6) * 100 + i).toString(36)}`, {
        workspaceId: `ws_${below(workspaces)}`,
        priority: below(3) - 1,
        queuedAt: below(4),
        notBefore: below(4) * 10,
      }),
    );
    const running = Array.from({ length: below(5) }, () => `ws_${below(workspaces + 1)}`);
    const now = below(4) * 10;
    expect([...inOrder(queue, { running }, now)]).toEqual(reference(queue, running, now));
  }
});

test("D1: 10,000 jobs are put in order with n log n comparisons, and the first 16 with 3 for each job", () => {
  const random = openRandom(3);
  const n = 10_000;
  const queue = Array.from({ length: n }, (_, i) =>
    waiting(`job_${i}`, {
      workspaceId: `ws_${Math.floor(random() * 20)}`,
      priority: Math.floor(random() * 3) - 1,
      queuedAt: Math.floor(random() * n),
    }),
  );
  let compared = 0;
  const counting: typeof compareTurns = (a, b) => {
    compared++;
    return compareTurns(a, b);
  };
  const next = inOrder(queue, { running: [] }, 0, counting);
  for (let i = 0; i < 16; i++) next.next();
  expect(compared).toBeGreaterThan(0);
  expect(compared).toBeLessThan(3 * n);
  expect([...next]).toHaveLength(n - 16);
  expect(compared).toBeLessThan(3 * n * Math.log2(n));
});
