/**
 * Which due deliveries start now. Each endpoint is a lane: oldest first within it, the lanes in turn, and no lane runs
 * more at once than its window, which opens with quick answers and closes with a failure. Lanes are of three standings,
 * each with places of its own, so that however many endpoints do not answer, those that do are not delayed and those
 * that are new are heard; and neither starves the slow ones. Memory: a caller holds a few windows of rows for a lane.
 * NOT covered: that an endpoint was quick is no promise; if many turn slow at once, `total` holds the rest back until
 * their attempts end.
 */
const STANDINGS = ["quick", "fresh", "slow"] as const;
export type Standing = (typeof STANDINGS)[number];
export type Pace = { window: number; standing: Standing };
export type Lane<T> = {
  endpointId: string;
  pace: Pace;
  running: number;
  /** Oldest first. Asked for when its turn comes, and not before: a caller may read it then. */
  readonly due: readonly T[];
};
/** Of attempts at once: for one endpoint, for all of a standing, and in all, those that turned slow under way included. */
export type Limits = Record<Standing, number> & { perEndpoint: number; total: number };
/** The endpoints served last: the next in order of id comes next. */
export type Turn = Record<Standing, string>;

/** Well below what a process may have under way, chats included: 256 where `main.ts` could not raise it. */
export const LIMITS: Limits = { perEndpoint: 16, quick: 64, fresh: 16, slow: 24, total: 128 };
export const FIRST_TURN: Turn = { quick: "", fresh: "", slow: "" };
export const SLOW_MS = 2000;

/** After a start of the server, from what the endpoint's row remembers. */
export const firstPace = (consecutiveFailures: number): Pace => ({
  window: 1,
  standing: consecutiveFailures > 0 ? "slow" : "fresh",
});

export function paceAfter(pace: Pace, attempt: { succeeded: boolean; durationMs: number }, limits = LIMITS): Pace {
  if (!attempt.succeeded) return { window: 1, standing: "slow" };
  if (attempt.durationMs > SLOW_MS) return { ...pace, standing: "slow" };
  return { window: Math.min(limits.perEndpoint, pace.window * 2), standing: "quick" };
}

/** An attempt that has been under way for long is slow before it ends. */
export const paceDuring = (pace: Pace, oldestRunningMs: number): Pace =>
  oldestRunningMs > SLOW_MS ? { ...pace, standing: "slow" } : pace;

export const roomOf = ({ pace, running }: Pick<Lane<unknown>, "pace" | "running">, limits = LIMITS): number =>
  Math.max(0, Math.min(pace.window, limits.perEndpoint) - running);

/** `lanes`: every endpoint that has something due or under way. */
export function chooseStarts<T>(lanes: readonly Lane<T>[], turn: Turn, limits = LIMITS): { chosen: T[]; turn: Turn } {
  const chosen: T[] = [];
  const after = { ...turn };
  let free = limits.total - runningIn(lanes);
  for (const standing of STANDINGS) {
    const these = lanes.filter((lane) => lane.pace.standing === standing);
    const places = Math.min(free, limits[standing] - runningIn(these));
    const taken = inTurn(these, turn[standing], places, limits);
    chosen.push(...taken.chosen);
    after[standing] = taken.last;
    free -= taken.chosen.length;
  }
  return { chosen, turn: after };
}

const runningIn = (lanes: readonly Lane<unknown>[]) => lanes.reduce((sum, lane) => sum + lane.running, 0);

/** At most `places`, one from each lane with room and then again. */
function inTurn<T>(lanes: readonly Lane<T>[], last: string, places: number, limits: Limits) {
  const sorted = lanes
    .filter((lane) => roomOf(lane, limits) > 0)
    .sort((a, b) => (a.endpointId < b.endpointId ? -1 : 1));
  const first = sorted.findIndex((lane) => lane.endpointId > last);
  let open = first < 0 ? sorted : [...sorted.slice(first), ...sorted.slice(0, first)];
  const chosen: T[] = [];
  for (let round = 0; open.length > 0 && chosen.length < places; round++) {
    const served: Lane<T>[] = [];
    for (const lane of open) {
      if (chosen.length >= places) break;
      if (round >= roomOf(lane, limits) || round >= lane.due.length) continue;
      chosen.push(lane.due[round]!);
      last = lane.endpointId;
      served.push(lane);
    }
    open = served;
  }
  return { chosen, last };
}
