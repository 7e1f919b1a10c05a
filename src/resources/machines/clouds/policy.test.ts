import { expect, test } from "bun:test";
import { MINUTE_MS } from "../../../lib/units.ts";
import {
  isDue,
  judge,
  type KeepFacts,
  nameFor,
  orphansOf,
  ownNames,
  pauseMs,
  reasonToWait,
  type StartFacts,
  shouldStart,
} from "./policy.ts";

const START: StartFacts = {
  isRequested: true,
  machine: undefined,
  count: 0,
  most: 2,
  canPay: true,
  notBefore: Number.NEGATIVE_INFINITY,
  now: 0,
};
const KEEP: KeepFacts = {
  row: { status: "ready", idleSince: null },
  isBusy: false,
  isRequested: false,
  canPay: true,
  isAllowed: true,
  isStarting: false,
  missed: 0,
  idleMs: 10 * MINUTE_MS,
  now: 100 * MINUTE_MS,
};
const act = (more: Partial<KeepFacts>) => judge({ ...KEEP, ...more }).act;

test("a machine starts for work that asks for it, and never a second one for a region", () => {
  expect(shouldStart(START)).toBe(true);
  expect(shouldStart({ ...START, isRequested: false })).toBe(false);
  for (const status of ["starting", "ready", "ending"] as const)
    expect(shouldStart({ ...START, machine: { status } })).toBe(false);
});

test("work waits for the limit of the operator, for credit and for the pause after a failure", () => {
  expect(reasonToWait({ ...START, count: 2 })).toContain("max_machines");
  expect(reasonToWait({ ...START, canPay: false })).toContain("out of credit");
  expect(reasonToWait({ ...START, notBefore: 1 })).toContain("failed");
  expect(reasonToWait({ ...START, notBefore: 0, count: 1 })).toBeUndefined();
});

test("a machine with work stays, whatever else holds except that it is gone", () => {
  expect(act({ isBusy: true, canPay: false, isAllowed: false })).toBe("keep");
  expect(act({ isBusy: true, missed: 1 })).toBe("keep");
  expect(act({ isBusy: true, missed: 2 })).toBe("end");
});

test("a machine without work stays for the idle time, and not longer", () => {
  const now = KEEP.now;
  const idle = (minutes: number) => ({ row: { status: "ready" as const, idleSince: now - minutes * MINUTE_MS } });
  expect(judge(KEEP)).toEqual({ act: "keep", idleSince: now });
  expect(act(idle(9.9))).toBe("keep");
  expect(act(idle(10))).toBe("end");
  expect(judge({ ...KEEP, ...idle(10), isRequested: true })).toEqual({ act: "keep", idleSince: null });
  expect(judge({ ...KEEP, ...idle(-500) })).toEqual({ act: "keep", idleSince: now }); // the clock was set back
  expect(act({ idleMs: 0 })).toBe("end");
});

test("a machine without work ends at once if nobody pays for it or nobody may use it", () => {
  expect(act({ canPay: false })).toBe("end");
  expect(act({ canPay: false, isRequested: true })).toBe("end");
  expect(act({ isAllowed: false, isRequested: true })).toBe("end");
});

test("a machine whose start was interrupted ends", () => {
  const row = { status: "starting" as const, idleSince: null };
  expect(act({ row, isStarting: true, canPay: false })).toBe("keep");
  expect(act({ row, isStarting: false, isRequested: true })).toBe("end");
});

test("only names of this server and of this cloud are its own", () => {
  const name = nameFor("0123456789", "aws", new Uint8Array(16).fill(7));
  expect(name).toBe("verk-0123456789-aws-777777777777");
  const others = [
    "verk-9876543210-aws-777777777777",
    "verk-0123456789-aws-eu-777777777777",
    "verk-0123456789-aws-77777777777",
    "verk-0123456789-aws-777777777777-x",
    "x-verk-0123456789-aws-777777777777",
    "verk",
    "",
  ];
  expect(ownNames([...others, name, name], "0123456789", "aws")).toEqual([name]);
  expect(orphansOf([name, "b"], new Set(["b"]))).toEqual([name]);
});

test("pauses grow to ten minutes, and a clock that was wrong does not delay the next try", () => {
  expect([1, 2, 3, 20].map(pauseMs)).toEqual([10_000, 20_000, 40_000, 600_000]);
  expect([isDue(null, 5), isDue(5, 5), isDue(6, 5), isDue(5 + 600_001, 5)]).toEqual([true, true, false, true]);
});
