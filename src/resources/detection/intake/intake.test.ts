import { expect, test } from "bun:test";
import type { Ctx } from "../../../context.ts";
import { withRoom } from "./intake.ts";

function intake(max_batch_bytes: number) {
  const held = new Map<string, number>();
  const ctx = { config: { detect: { max_batch_bytes } }, state: { detection: { intake: held } } } as unknown as Ctx;
  /** Holds the bytes until `leave`. */
  const hold = (workspaceId: string, ...pieces: number[]) => {
    const { promise, resolve: leave } = Promise.withResolvers<void>();
    const done = withRoom(ctx, workspaceId, async (grow) => {
      pieces.forEach(grow);
      await promise;
    }).then(
      () => "done",
      (error: { code?: string }) => error.code,
    );
    return { done, leave };
  };
  return { held, hold };
}

test("a workspace holds the bytes of one batch, all together twice that", async () => {
  const { held, hold } = intake(100);
  const first = hold("a", 60, 40);
  expect(await hold("a", 1).done).toBe("no_capacity");
  const second = hold("b", 100);
  expect(held.values().reduce((sum, each) => sum + each, 0)).toBe(200);
  expect(await hold("c", 1).done).toBe("no_capacity");
  first.leave();
  expect(await first.done).toBe("done");
  const third = hold("c", 99);
  const fourth = hold("a", 1);
  expect([...held].sort()).toEqual([
    ["a", 1],
    ["b", 100],
    ["c", 99],
  ]);
  for (const { leave, done } of [second, third, fourth]) {
    leave();
    expect(await done).toBe("done");
  }
  expect(held.size).toBe(0);
});

test("a body beyond the limit of one batch counts with the limit, and gives back what it took", async () => {
  const { held, hold } = intake(100);
  const long = hold("a", 90, 1_000);
  expect(held.get("a")).toBe(100);
  long.leave();
  expect([await long.done, held.size]).toEqual(["done", 0]);
  const two = [hold("a", 30), hold("a", 20)];
  two[0]?.leave();
  await two[0]?.done;
  expect(held.get("a")).toBe(20);
});
