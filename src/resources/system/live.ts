/** Facts about the loop `clock.observe`: its last log entry and its last write. */
export class ClockNote {
  isSuspect = false;
  writtenAt = Number.NEGATIVE_INFINITY;
}
