import { expect, test } from "bun:test";
import type { State } from "./contract.ts";
import { missing } from "./mlflow.ts";
import { firstFew, flatten, givesUp, nextPiece, pauseAfter, stateOf } from "./plan.ts";

const told = { isOpen: true, paramsSent: true, stateSent: "running", sentAt: 0 };
const running = { state: "running" as State, hasPoints: false, beats: false };

test.each([
  ["first the run is opened", { ...told, isOpen: false, paramsSent: false }, { ...running, hasPoints: true }, "open"],
  ["then its parameters are told", { ...told, paramsSent: false }, { ...running, hasPoints: true }, "params"],
  ["points come before an end", told, { ...running, state: "failed" as State, hasPoints: true }, "points"],
  ["an end comes last", told, { ...running, state: "failed" as State }, "state"],
  ["and then nothing", { ...told, stateSent: "failed" }, { ...running, state: "failed" as State }, "nothing"],
  ["what runs is looked at again", told, running, "wait"],
  ["a tracker that needs it hears that it lives", told, { ...running, beats: true }, "beat"],
] as const)("%s", (_name, run, job, piece) => {
  expect(nextPiece(run, job, 60_000)).toBe(piece);
});

test.each([
  ["queued", null, "queued"],
  ["queued", 1, "running"],
  ["paused", 1, "running"],
  ["cancelling", 1, "running"],
  ["cancelled", null, "cancelled"],
] as const)("%s, started at %p, is %s", (status, startedAt, state) => {
  expect(stateOf(status, startedAt)).toBe(state);
});

test("pauses grow to ten minutes; patience ends after ten refusals or three days", () => {
  expect([1, 2, 3, 7, 8, 100].map(pauseAfter)).toEqual([5_000, 10_000, 20_000, 320_000, 600_000, 600_000]);
  expect(givesUp({ refusals: 9, failingSince: 0 }, 71 * 3_600_000)).toBe(false);
  expect(givesUp({ refusals: 10, failingSince: 0 }, 0)).toBe(true);
  expect(givesUp({ refusals: 0, failingSince: 0 }, 72 * 3_600_000)).toBe(true);
});

test("a request takes whole points, at least one", () => {
  const wide = Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`k${i}`, i]));
  const points = [1, 2, 3].map((step) => ({ step, time: 0, values: wide }));
  expect(firstFew(points).map(({ step }) => step)).toEqual([1, 2]);
  const huge = {
    step: 1,
    time: 0,
    values: { ...wide, ...Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`m${i}`, i])) },
  };
  expect(firstFew([huge, huge])).toHaveLength(1);
  expect(firstFew([])).toEqual([]);
});

test("what a tracker has is left out, key by key", () => {
  const points = [1, 2].map((step) => ({ step, time: 0, values: { "a:b": step, c: step } }));
  expect(
    missing(
      points,
      new Map([
        ["a_b", 2],
        ["c", 1],
      ]),
    ),
  ).toEqual([{ step: 2, time: 0, values: { c: 2 } }]);
  expect(missing(points, new Map())).toEqual(points);
});

test("settings are flat names with text", () => {
  expect(flatten({ a: 1, b: null, c: { d: [1, "x"], e: { f: true } }, g: "t" })).toEqual({
    a: "1",
    "c.d": '[1,"x"]',
    "c.e.f": "true",
    g: "t",
  });
});
