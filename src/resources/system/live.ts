/** What the loop `clock.observe` has logged and written down. */
export class ClockNote {
  isSuspect = false;
  writtenAt = Number.NEGATIVE_INFINITY;
}
