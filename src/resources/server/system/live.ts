import type { SystemChecks } from "./checks.ts";

declare module "../../../context.ts" {
  interface State {
    readonly clockNote: ClockNote;
    readonly checks: ChecksState;
  }
}

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
