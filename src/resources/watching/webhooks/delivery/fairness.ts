/**
 * Chooses which due deliveries start now. Within an endpoint the oldest comes first; endpoints take turns. An endpoint
 * runs at most its window at once: quick answers open the window, a failure closes it. Endpoints belong to one of three
 * speed classes with permits of their own, so slow endpoints delay no quick ones, and new endpoints are served soon.
 * The endpoints of one workspace have half of the permits at most, so many that hang do not shut other workspaces out.
 * NOT covered: many quick endpoints may turn slow at once. Then `total` holds the rest back until their attempts end.
 */
const SPEEDS = ["quick", "fresh", "slow"] as const;
export type Speed = (typeof SPEEDS)[number];
export type Pace = { window: number; speed: Speed };
/** `running`: the number of attempts under way. */
export type EndpointLoad = { endpointId: string; workspaceId: string; pace: Pace; running: number };
/** `due`: deliveries that are due and not under way, oldest first. */
export type EndpointQueue<T> = EndpointLoad & { due: readonly T[] };
/** Attempts at once: for one endpoint, for each speed class, in all, and the part of them that one workspace may have. */
export type Limits = Record<Speed, number> & { perEndpoint: number; total: number; workspaceShare: number };
/** The endpoint that was served last, by speed class. The next one in the order of ids comes next. */
export type Turn = Record<Speed, string>;

/** Well below Bun's limit of requests under way, chats included: 256 where `main.ts` could not raise it. */
export const LIMITS: Limits = { perEndpoint: 16, quick: 64, fresh: 32, slow: 48, total: 160, workspaceShare: 0.5 };
export const FIRST_TURN: Turn = { quick: "", fresh: "", slow: "" };
export const SLOW_MS = 2000;

/** The pace after a start of the server, from the failures in the endpoint's row. */
export const firstPace = (consecutiveFailures: number): Pace => ({
  window: 1,
  speed: consecutiveFailures > 0 ? "slow" : "fresh",
});

export function paceAfter(pace: Pace, attempt: { succeeded: boolean; durationMs: number }, limits = LIMITS): Pace {
  if (!attempt.succeeded) return { window: 1, speed: "slow" };
  if (attempt.durationMs > SLOW_MS) return { ...pace, speed: "slow" };
  return { window: Math.min(limits.perEndpoint, pace.window * 2), speed: "quick" };
}

/** An attempt that takes long makes its endpoint slow before the attempt ends. */
export const paceDuring = (pace: Pace, oldestRunningMs: number): Pace =>
  oldestRunningMs > SLOW_MS ? { ...pace, speed: "slow" } : pace;

/** How many more attempts the endpoint may start. */
export const roomOf = ({ pace, running }: Pick<EndpointLoad, "pace" | "running">, limits = LIMITS): number =>
  Math.max(0, Math.min(pace.window, limits.perEndpoint) - running);

/** Counts the attempts of each workspace, in all and in one speed class. `take` is false where its share is used up. */
export function sharesOf(loads: readonly EndpointLoad[], speed: Speed, limits = LIMITS) {
  const all = new Map<string, number>();
  const ofSpeed = new Map<string, number>();
  const add = (to: Map<string, number>, id: string, count: number) => void to.set(id, (to.get(id) ?? 0) + count);
  for (const { workspaceId, running, pace } of loads) {
    add(all, workspaceId, running);
    if (pace.speed === speed) add(ofSpeed, workspaceId, running);
  }
  const most = (limit: number) => Math.max(1, limit * limits.workspaceShare);
  const hasRoom = (id: string) =>
    (all.get(id) ?? 0) < most(limits.total) && (speed === "quick" || (ofSpeed.get(id) ?? 0) < most(limits[speed]));
  return {
    hasRoom,
    take(id: string): boolean {
      if (!hasRoom(id)) return false;
      add(all, id, 1);
      add(ofSpeed, id, 1);
      return true;
    },
  };
}

/** The endpoints of one speed class that have room, in the order of their turns, and the free permits of the class. */
export type ClassTurns<E> = { speed: Speed; permits: number; endpoints: E[] };

/** `loads`: every endpoint that has something due or under way. */
export function turnsOf<E extends EndpointLoad>(loads: readonly E[], turn: Turn, limits = LIMITS): ClassTurns<E>[] {
  const free = limits.total - runningIn(loads);
  return SPEEDS.map((speed) => {
    const ofClass = loads.filter(({ pace }) => pace.speed === speed);
    const permits = Math.max(0, Math.min(free, limits[speed] - runningIn(ofClass)));
    const shares = sharesOf(loads, speed, limits);
    const sorted = ofClass
      .filter((load) => roomOf(load, limits) > 0 && shares.hasRoom(load.workspaceId))
      .sort((a, b) => (a.endpointId < b.endpointId ? -1 : 1));
    const first = sorted.findIndex(({ endpointId }) => endpointId > turn[speed]);
    const endpoints = first < 0 ? sorted : [...sorted.slice(first), ...sorted.slice(0, first)];
    return { speed, permits, endpoints };
  });
}

const runningIn = (loads: readonly EndpointLoad[]) => loads.reduce((sum, { running }) => sum + running, 0);

export function chooseStarts<T>(
  queues: readonly EndpointQueue<T>[],
  turn: Turn,
  limits = LIMITS,
): { chosen: T[]; turn: Turn } {
  const chosen: T[] = [];
  const after = { ...turn };
  let free = limits.total - runningIn(queues);
  for (const { speed, permits, endpoints } of turnsOf(queues, turn, limits)) {
    const shares = sharesOf(queues, speed, limits);
    const taken = takeInRounds(endpoints, Math.min(free, permits), limits, shares.take);
    chosen.push(...taken.chosen);
    after[speed] = taken.last ?? turn[speed];
    free -= taken.chosen.length;
  }
  return { chosen, turn: after };
}

/** Takes one delivery from each endpoint, then a second one from each, until the permits are used up. */
function takeInRounds<T>(
  endpoints: readonly EndpointQueue<T>[],
  permits: number,
  limits: Limits,
  take: (workspaceId: string) => boolean,
) {
  const chosen: T[] = [];
  let last: string | undefined;
  let open = endpoints;
  for (let round = 0; open.length > 0 && chosen.length < permits; round++) {
    open = open.filter((queue) => round < Math.min(roomOf(queue, limits), queue.due.length));
    for (const { due, endpointId, workspaceId } of open) {
      if (chosen.length >= permits) break;
      if (!take(workspaceId)) continue;
      chosen.push(due[round]!);
      last = endpointId;
    }
  }
  return { chosen, last };
}
