import type { SystemChecks } from "./checks.ts";

/** Facts about the loop `clock.observe`: its last log entry and its last write. */
export class ClockNote {
  isSuspect = false;
  writtenAt = Number.NEGATIVE_INFINITY;
}

/** The last run of the checks, which may still be under way. */
export class ChecksState {
  result: Promise<SystemChecks> | undefined;
  at = Number.NEGATIVE_INFINITY;
}
