import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../test/harness.ts";
import { LONGEST_TURN_MS, longestTurnMsOf, threadCpuMs } from "../../../test/turns.ts";
import { gradually } from "./gradually.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

test("a removal takes as many rows at once as a turn allows, whatever a row costs", async () => {
  const { db } = open().ctx;
  for (const [all, rowMs] of [
    [600, 0.5],
    [20_000, 0],
  ] as const) {
    let left = all;
    const bites: number[] = [];
    const bite = (_: unknown, rows: number) => {
      const taken = Math.min(rows, left);
      for (const end = threadCpuMs() + taken * rowMs; threadCpuMs() < end; );
      bites.push(taken);
      left -= taken;
      return taken;
    };
    expect(await longestTurnMsOf(() => gradually(db, bite))).toBeLessThan(LONGEST_TURN_MS);
    expect([left, Math.max(...bites)]).toEqual([0, rowMs === 0 ? 1_000 : 50]);
  }
});
