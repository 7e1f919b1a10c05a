import { expect, test } from "bun:test";
import { fakeClock } from "../../test/harness.ts";
import { createShutdown, stepBudget } from "./shutdown.ts";

function setup(deadlineMs = 2_000) {
  const errors: string[] = [];
  const clock = fakeClock();
  const log = { info: () => {}, error: (msg: string) => void errors.push(msg) };
  const shutdown = createShutdown({ deadlineMs, log, clock });
  /** The clock moves on while it stops. */
  const stopped = async () => {
    let over = false;
    const running = shutdown.run("test").finally(() => {
      over = true;
    });
    for (; !over; clock.advance(1)) await new Promise(setImmediate);
    return await running;
  };
  return { shutdown, stopped, errors };
}
const never = () => new Promise<void>(() => {});

test.each([
  ["the last step may take all of it", 10_000, 0, 10_000],
  ["an early step leaves half a second for each later one", 10_000, 4, 8_000],
  ["a short deadline is shared out evenly", 400, 3, 100],
  ["nothing left is nothing", 0, 3, 0],
  ["an overrun is nothing", -50, 0, 0],
])("%s", (_name, left, after, budget) => expect(stepBudget(left, after)).toBe(budget));

test("steps run one after another in reverse order of adding, and once", async () => {
  const { shutdown } = setup();
  const order: string[] = [];
  for (const name of ["db", "loops", "http"]) {
    shutdown.add(name, async () => {
      order.push(`${name} begins`);
      await new Promise(setImmediate);
      order.push(`${name} ends`);
    });
  }
  expect(shutdown.running).toBe(false);
  const [first, second] = await Promise.all([shutdown.run("SIGTERM"), shutdown.run("again")]);
  expect(order).toEqual(["http begins", "http ends", "loops begins", "loops ends", "db begins", "db ends"]);
  expect(second).toBe(first);
  expect(first).toMatchObject({ reason: "SIGTERM", clean: true });
});

test("a step that throws, rejects or hangs does not keep the others from running", async () => {
  const { shutdown, stopped, errors } = setup(200);
  let closed = false;
  let hurried = false;
  shutdown.add("db", () => {
    closed = true;
  });
  shutdown.add("hangs", (signal) => {
    signal.addEventListener("abort", () => {
      hurried = true;
    });
    return never();
  });
  shutdown.add("rejects", () => Promise.reject(new Error("later")));
  shutdown.add("throws", () => {
    throw new Error("now");
  });
  const report = await stopped();
  expect(report.steps.map((s) => [s.name, s.outcome])).toEqual([
    ["throws", "failed"],
    ["rejects", "failed"],
    ["hangs", "timed_out"],
    ["db", "ok"],
  ]);
  expect({ closed, hurried, clean: report.clean }).toEqual({ closed: true, hurried: true, clean: false });
  expect(report.ms).toBeLessThanOrEqual(200);
  expect(errors).toHaveLength(3);
});

test("when every step hangs, it still ends at the deadline", async () => {
  const { shutdown, stopped } = setup(150);
  for (const name of ["a", "b", "c", "d", "e"]) shutdown.add(name, never);
  const report = await stopped();
  expect(report.steps.map((s) => s.outcome)).toEqual(Array(5).fill("timed_out"));
  expect(report.ms).toBeWithin(145, 155);
});

test("a step added while stopping is stopped too", async () => {
  const { shutdown } = setup();
  const order: string[] = [];
  shutdown.add("slow start", () => {
    shutdown.add("late", () => void order.push("late"));
    order.push("slow start");
  });
  await shutdown.run("test");
  expect(order).toEqual(["slow start", "late"]);
});

test("the first signal stops in order, the second exits at once", async () => {
  const { shutdown } = setup(60_000);
  const codes: number[] = [];
  const slow = Promise.withResolvers<void>();
  shutdown.add("slow", () => slow.promise);
  const exited = Promise.withResolvers<void>();
  const undo = shutdown.handleSignals((code) => void (codes.push(code) === 2 && exited.resolve()));
  try {
    process.emit("SIGTERM", "SIGTERM");
    await new Promise(setImmediate);
    expect(codes).toEqual([]);
    process.emit("SIGINT", "SIGINT");
    expect(codes).toEqual([130]);
    slow.resolve();
    await exited.promise;
    expect(codes).toEqual([130, 0]);
  } finally {
    undo();
  }
});
