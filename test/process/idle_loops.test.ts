import { afterAll, expect, spyOn, test } from "bun:test";
import { SQL } from "drizzle-orm";
import { type LoopName, SCHEDULES } from "../../src/schedules.ts";
import { testApp } from "../harness.ts";
import { tickOf } from "../loops_kit.ts";

const app = testApp();
afterAll(() => app.close().then(app.remove));

const OFTEN_MS = 5_000;
const often = (Object.keys(SCHEDULES) as LoopName[]).filter((name) => {
  const schedule: (typeof SCHEDULES)[LoopName] | { everyMs: number } = SCHEDULES[name];
  return typeof schedule === "object" && schedule.everyMs <= OFTEN_MS;
});

/** Statements that are built anew keep the optimizing compiler busy, which takes memory from a server at rest. */
test.each(often)("%s builds no statement in a tick that finds nothing to do", async (name) => {
  await tickOf(app.ctx, name);
  const built = spyOn(SQL.prototype, "toQuery");
  try {
    await tickOf(app.ctx, name);
    expect(built).not.toHaveBeenCalled();
  } finally {
    built.mockRestore();
  }
});
