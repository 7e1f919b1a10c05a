import { describe, expect, test } from "bun:test";
import { randomFor, SEED, sweep } from "../../../../../test/sweep.ts";
import { openRandom } from "../../../../lib/random.ts";
import {
  chooseStarts,
  type EndpointQueue,
  FIRST_TURN,
  firstPace,
  type Limits,
  type Pace,
  paceAfter,
  paceDuring,
  roomOf,
  type Turn,
} from "./fairness.ts";

const QUICK: Pace = { window: 4, speed: "quick" };
const lane = (endpointId: string, due: string[], more: Partial<EndpointQueue<string>> = {}): EndpointQueue<string> => ({
  endpointId,
  workspaceId: endpointId,
  pace: QUICK,
  running: 0,
  due,
  ...more,
});
const limits: Limits = { perEndpoint: 4, quick: 6, fresh: 2, slow: 2, total: 12, workspaceShare: 1 };
const choose = (lanes: EndpointQueue<string>[], turn = FIRST_TURN) =>
  chooseStarts(lanes, turn, limits).chosen.join(" ");

describe("what starts now", () => {
  test("is the oldest of each endpoint in turn, then the next of each", () => {
    expect(choose([lane("b", ["b1", "b2"]), lane("a", ["a1", "a2", "a3"])])).toBe("a1 b1 a2 b2 a3");
  });

  test("goes on after the endpoint that was served last", () => {
    const lanes = ["a", "b", "c"].map((id) => lane(id, [`${id}1`, `${id}2`]));
    const two = chooseStarts(lanes, { ...FIRST_TURN, quick: "b" }, { ...limits, quick: 2 });
    expect([two.chosen.join(" "), two.turn.quick]).toEqual(["c1 a1", "a"]);
  });

  test("exceeds neither the window of an endpoint nor the limit of all", () => {
    expect(choose([lane("a", ["a1", "a2", "a3"], { running: 2 }), lane("b", ["b1"], { running: 4 })])).toBe("");
    expect(choose([lane("a", ["a1", "a2", "a3"], { running: 2 })])).toBe("a1 a2");
    expect(choose([lane("a", ["a1"], { running: 5, pace: { window: 99, speed: "quick" } })])).toBe("");
    const turnedSlow = lane("s", [], { running: 11, pace: { window: 4, speed: "slow" } });
    expect(choose([lane("a", ["a1", "a2"]), turnedSlow])).toBe("a1");
  });

  test("has permits for the quick, the new and the slow, whatever the others do", () => {
    const slow = { pace: { window: 1, speed: "slow" } } as const;
    const dead = ["s", "t", "u"].map((id) => lane(id, [`${id}1`, `${id}2`], slow));
    const fresh = lane("n", ["n1", "n2"], { pace: firstPace(0) });
    expect(choose([...dead, fresh, lane("a", ["a1"])])).toBe("a1 n1 s1 t1");
    expect(choose([...dead, lane("v", [], { ...slow, running: 2 }), fresh, lane("a", ["a1"])])).toBe("a1 n1");
    const full = [lane("b", [], { running: 6 }), lane("m", [], { running: 2, pace: firstPace(0) })];
    expect(choose([...dead, ...full, fresh], { ...FIRST_TURN, slow: "t" })).toBe("u1 s1");
  });
});

test("S7: a workspace whose many endpoints hang leaves half of each class to the others", () => {
  const wide: Limits = { perEndpoint: 4, quick: 6, fresh: 4, slow: 4, total: 12, workspaceShare: 0.5 };
  const hostile = Array.from({ length: 100 }, (_, i) =>
    lane(`a${i}`, [`a${i}`], { workspaceId: "hostile", pace: firstPace(0) }),
  );
  const small = lane("z", ["z1"], { workspaceId: "other", pace: firstPace(0) });
  expect(chooseStarts([...hostile, small], FIRST_TURN, wide).chosen).toEqual(["a0", "a1", "z1"]);
  const hanging = hostile.slice(0, 6).map((each) => ({ ...each, due: [], running: 1 })); // half of all attempts
  expect(chooseStarts([...hanging, ...hostile.slice(6), small], FIRST_TURN, wide).chosen).toEqual([]);
  const slow = hanging.map((each) => ({ ...each, pace: { window: 1, speed: "slow" as const } }));
  expect(chooseStarts([...slow, ...hostile.slice(6), small], FIRST_TURN, wide).chosen).toEqual(["z1"]);
});

describe("the pace of an endpoint", () => {
  test("opens with quick answers up to the limit, and closes with a failure", () => {
    let pace = firstPace(0);
    const windows = [pace.window];
    for (let i = 0; i < 6; i++) {
      pace = paceAfter(pace, { succeeded: true, durationMs: 30 });
      windows.push(pace.window);
    }
    expect([windows, pace.speed]).toEqual([[1, 2, 4, 8, 16, 16, 16], "quick"]);
    expect(paceAfter(pace, { succeeded: false, durationMs: 1 })).toEqual({ window: 1, speed: "slow" });
    expect(paceAfter(pace, { succeeded: true, durationMs: 9000 })).toEqual({ window: 16, speed: "slow" });
    expect(paceAfter(firstPace(9), { succeeded: true, durationMs: 9 })).toEqual({ window: 2, speed: "quick" });
  });

  test("is slow from the start after failures, and while an attempt takes long", () => {
    const standings = [firstPace(0), firstPace(1), paceDuring(QUICK, 1999), paceDuring(QUICK, 2001)];
    expect(standings.map((pace) => pace.speed)).toEqual(["fresh", "slow", "quick", "slow"]);
    expect([roomOf({ pace: QUICK, running: 1 }), roomOf({ pace: QUICK, running: 9 })]).toEqual([3, 0]);
  });
});

const STATES = sweep({ quick: 2_000, full: 10_000 });
test(`${STATES} random states: no limit is passed, nothing is out of order, no permit stays free that could be used (seed ${SEED})`, () => {
  const random = randomFor("fair lanes");
  const below = (limit: number) => Math.floor(random() * limit);
  const speeds = ["quick", "fresh", "slow"] as const;
  for (let i = 0; i < STATES; i++) {
    const [quick, fresh, slow] = [below(8), below(5), below(5)];
    const of: Limits = {
      perEndpoint: 1 + below(6),
      quick,
      fresh,
      slow,
      total: quick + fresh + slow + below(4),
      workspaceShare: 1,
    };
    const lanes = Array.from({ length: below(8) }, (_, n) => {
      const pace = { window: 1 + below(8), speed: speeds[below(3)]! };
      const due = Array.from({ length: below(6) }, (_, k) => `e${n}:${k}`);
      return lane(`e${n}`, due, { pace, running: below(3) });
    });
    const turn = { quick: `e${below(8)}`, fresh: `e${below(8)}`, slow: `e${below(8)}` };
    const { chosen } = chooseStarts(lanes, turn, of);
    const taken = (some: readonly EndpointQueue<string>[]) =>
      chosen.filter((c) => some.some((l) => c.startsWith(`${l.endpointId}:`)));
    const left = (some: readonly EndpointQueue<string>[], limit: number) => {
      const running = some.reduce((sum, each) => sum + each.running, 0);
      expect(taken(some).length).toBeLessThanOrEqual(Math.max(0, limit - running));
      return limit - running - taken(some).length;
    };
    const inAll = left(lanes, of.total);
    for (const speed of speeds) {
      const these = lanes.filter((each) => each.pace.speed === speed);
      const permits = Math.min(inAll, left(these, of[speed]));
      for (const each of these) {
        const mine = taken([each]);
        expect(mine).toEqual(each.due.slice(0, mine.length));
        expect(mine.length).toBeLessThanOrEqual(roomOf(each, of));
        if (permits > 0) expect(mine.length).toBe(Math.min(roomOf(each, of), each.due.length));
      }
    }
  }
});

test("with one permit at a time, every endpoint has its turn before any has two", () => {
  const served: string[] = [];
  let turn: Turn = FIRST_TURN;
  for (let i = 0; i < 60; i++) {
    const lanes = ["a", "b", "c", "d", "e"].map((id) => lane(id, [id, id, id]));
    const next = chooseStarts(lanes, turn, { ...limits, quick: 1 });
    served.push(...next.chosen);
    turn = next.turn;
  }
  expect(served.join("")).toBe("abcde".repeat(12));
});

type Job = { endpoint: string; dueAt: number };
type Strategy = (lanes: EndpointQueue<Job>[], turn: Turn) => { chosen: Job[]; turn: Turn };
const CAPACITY: Limits = { perEndpoint: 16, quick: 48, fresh: 12, slow: 16, total: 100, workspaceShare: 1 };

/** Bursts to 20 endpoints that answer within 60 ms and to `dead` that never do; the waits of the former, sorted. */
function waits(dead: number, strategy: Strategy): number[] {
  const random = openRandom(5);
  const jobs: Job[] = [];
  for (let burst = 0; burst < 10; burst++)
    for (let n = 0; n < 20 + dead; n++) {
      const dueAt = burst * 2000 + (n % 20) * 13;
      for (let k = 0; k < 20; k++) jobs.push({ endpoint: `${n < 20 ? "live" : "dead"}${n}`, dueAt });
    }
  jobs.sort((a, b) => b.dueAt - a.dueAt);
  const lanes = new Map<string, EndpointQueue<Job> & { due: Job[]; started: number[] }>();
  const ends: { at: number; startedAt: number; job: Job }[] = [];
  const found: number[] = [];
  let turn = FIRST_TURN;
  for (let now = 0; now < 60_000; now = Math.min(jobs.at(-1)?.dueAt ?? 1e9, ends[0]?.at ?? 1e9, now + 100)) {
    for (const end of ends.splice(0, ends.findLastIndex((each) => each.at <= now) + 1)) {
      const of = lanes.get(end.job.endpoint)!;
      const attempt = { succeeded: end.job.endpoint.startsWith("live"), durationMs: now - end.startedAt };
      of.started.splice(of.started.indexOf(end.startedAt), 1);
      Object.assign(of, { running: of.running - 1, pace: paceAfter(of.pace, attempt, CAPACITY) });
    }
    for (; (jobs.at(-1)?.dueAt ?? 1e9) <= now; jobs.pop()) {
      const { endpoint } = jobs.at(-1)!;
      const of = lanes.get(endpoint) ?? {
        endpointId: endpoint,
        workspaceId: endpoint,
        pace: firstPace(0),
        running: 0,
        due: [],
        started: [],
      };
      lanes.set(endpoint, of);
      of.due.push(jobs.at(-1)!);
    }
    const seen = [...lanes.values()].map((each) => ({
      ...each,
      pace: paceDuring(each.pace, now - (each.started[0] ?? now)),
    }));
    const next = strategy(seen, turn);
    turn = next.turn;
    for (const job of next.chosen) {
      const of = lanes.get(job.endpoint)!;
      of.due.splice(of.due.indexOf(job), 1);
      of.started.push(now);
      Object.assign(of, { running: of.running + 1 });
      const live = job.endpoint.startsWith("live");
      if (live) found.push(now - job.dueAt);
      ends.push({ at: now + (live ? 20 + Math.floor(random() * 40) : 10_000), startedAt: now, job });
    }
    ends.sort((a, b) => a.at - b.at);
  }
  return found.sort((a, b) => a - b);
}

describe("ten endpoints that never answer", () => {
  const p99 = (sorted: number[]) => sorted[Math.floor(sorted.length * 0.99)]!;
  const fair: Strategy = (lanes, turn) => chooseStarts(lanes, turn, CAPACITY);
  const oldestFirst: Strategy = (lanes, turn) => {
    const free = CAPACITY.total - lanes.reduce((sum, each) => sum + each.running, 0);
    if (free === 0) return { chosen: [], turn };
    const due = lanes.flatMap((each) => each.due).sort((a, b) => a.dueAt - b.dueAt);
    return { chosen: due.slice(0, free), turn };
  };

  test("shift the waits of twenty others by less than a tenth; oldest first would not", () => {
    const [alone, among, naive] = [waits(0, fair), waits(10, fair), waits(10, oldestFirst)];
    expect([alone.length, among.length]).toEqual([4000, 4000]);
    expect(p99(alone)).toBeGreaterThan(0);
    expect(p99(among)).toBeLessThan(p99(alone) * 1.1);
    expect(p99(naive)).toBeGreaterThan(p99(alone) * 10);
  });
});
