import { describe, expect, test } from "bun:test";
import { SEED, seedFor, sweep } from "../../../../../test/sweep.ts";
import { openRandom, type Random } from "../../../../lib/random.ts";
import {
  type Delivery,
  dueAction,
  type Endpoint,
  enabled,
  held,
  judge,
  newDelivery,
  type Outcome,
  resumed,
  settled,
  type Trigger,
} from "./verdict.ts";

/**
 * A server over a simulated clock: its rows outlive a crash, what is under way does not. Receivers fail, the process
 * dies before, during and after attempts, people disable, enable, delete and resend. What happened is then checked
 * against the specification's words, not against the code that made it happen.
 */
const SECOND = 1000;
const HOUR = 3600 * SECOND;
const START = 1_700_000_000_000;
const HISTORIES = sweep({ quick: 1_000, full: 10_000 });
const FIRST = seedFor("verdict histories");

type Row = Delivery & { endpoint: string; settledAt: number | null };
type Tried = {
  delivery: string;
  endpoint: string;
  trigger: Trigger;
  startedAt: number;
  endsAt: number;
  outcome: Outcome;
  /** False: the process died before it could write the end down. */
  recorded: boolean;
};
type Deed = { at: number; does: "event" | "crash" | "restart" | "disable" | "enable" | "delete" | "resend" };
type Nature = { succeeds: number; gone: number; asks: number; lasts: number };

class Simulation {
  now = START;
  up = true;
  readonly rows = new Map<string, Row>();
  readonly endpoints = new Map<string, Endpoint>();
  readonly natures = new Map<string, Nature>();
  readonly tried: Tried[] = [];
  readonly restarts: number[] = [];
  /** Attempts in the order their ends were written down, and how many there were when an endpoint was enabled. */
  readonly ends: Tried[] = [];
  readonly enabledAfter = new Map<string, number>();
  readonly enabledAt = new Map<string, number[]>();
  private readonly running = new Map<string, Tried>();
  private readonly deeds: Deed[];
  private readonly crashes: number;

  constructor(private readonly random: Random) {
    for (let i = 0; i < 1 + this.below(2); i++) {
      const pick = (of: readonly number[]) => of[this.below(of.length)]!;
      this.endpoints.set(`whk_${i}`, { status: "enabled", consecutiveFailures: 0, disabledAtMs: null });
      const nature = { succeeds: pick([0, 0.05, 0.3, 0.9]), gone: pick([0, 0, 0, 0.02]), asks: pick([0, 0.3]) };
      this.natures.set(`whk_${i}`, { ...nature, lasts: pick([0, 200, 10 * SECOND]) });
    }
    this.crashes = [0, 0, 0.1][this.below(3)]!;
    this.deeds = this.plan();
  }

  private below(limit: number) {
    return Math.floor(this.random() * limit);
  }

  private plan(): Deed[] {
    const some = (count: number, does: Deed["does"], within: number) =>
      Array.from({ length: count }, (): Deed => ({ at: START + this.below(within), does }));
    const events = this.below(25) === 0 ? 60 : 1 + this.below(7);
    const deeds = [...some(events, "event", HOUR), ...some(this.below(3), "crash", 80 * HOUR)];
    if (this.below(4) === 0) deeds.push(...some(1, "disable", 20 * HOUR), ...some(1, "enable", 40 * HOUR));
    if (this.below(8) === 0) deeds.push(...some(1, "delete", 20 * HOUR));
    if (this.below(2) === 0) deeds.push(...some(1 + this.below(3), "resend", 80 * HOUR));
    return deeds.sort((a, b) => b.at - a.at); // the next one last
  }

  run(): this {
    for (let rounds = 0; ; rounds++) {
      if (rounds > 10_000) throw new Error("The history does not end");
      const next = this.nextTime();
      if (next === Number.POSITIVE_INFINITY) return this;
      this.now = Math.max(this.now, next);
      while ((this.deeds.at(-1)?.at ?? Number.POSITIVE_INFINITY) <= this.now) this.act(this.deeds.pop()!.does);
      for (const tried of [...this.running.values()]) if (this.up && tried.endsAt <= this.now) this.end(tried);
      for (const row of this.rows.values()) if (this.up && !this.running.has(row.id)) this.take(row);
    }
  }

  private nextTime(): number {
    let next = this.deeds.at(-1)?.at ?? Number.POSITIVE_INFINITY;
    if (!this.up) return next;
    for (const tried of this.running.values()) next = Math.min(next, tried.endsAt);
    for (const row of this.rows.values())
      if (row.status === "pending" && !this.running.has(row.id))
        next = Math.min(next, row.dueAtMs ?? row.createdAtMs + 72 * HOUR);
    return next;
  }

  private act(does: Deed["does"]) {
    const id = `whk_${this.below(this.endpoints.size)}`;
    const endpoint = this.endpoints.get(id)!;
    if (does === "event") {
      const event = this.rows.size;
      for (const each of this.endpoints.keys()) {
        const row = { ...newDelivery(`dlv_${event}_${each}`, this.now), endpoint: each, settledAt: null };
        this.rows.set(row.id, row);
      }
    } else if (does === "crash") this.crash();
    else if (does === "restart") {
      this.up = true;
      this.restarts.push(this.now);
    } else if (!this.up)
      return; // what follows is a request
    else if (does === "resend") this.resend();
    else if (does === "enable" && endpoint.status === "disabled") {
      this.endpoints.set(id, enabled(endpoint));
      this.enabledAfter.set(id, this.ends.length);
      this.enabledAt.set(id, [...(this.enabledAt.get(id) ?? []), this.now]);
    } else if (does === "delete" || (does === "disable" && endpoint.status === "enabled"))
      this.endpoints.set(id, { ...endpoint, status: does === "delete" ? "deleted" : "disabled" });
  }

  private crash() {
    if (!this.up) return;
    this.up = false;
    this.running.clear();
    const awayMs = this.below([1, 20 * SECOND, 6 * HOUR, 90 * HOUR][this.below(4)]!);
    this.deeds.push({ at: this.now + awayMs, does: "restart" });
    this.deeds.sort((a, b) => b.at - a.at);
  }

  private resend() {
    const row = [...this.rows.values()][this.below(this.rows.size)];
    if (row && this.up && !this.running.has(row.id) && this.endpoints.get(row.endpoint)?.status === "enabled")
      this.begin(row, "manual");
  }

  private take(row: Row) {
    const action = dueAction(row, this.endpoints.get(row.endpoint)!, this.now);
    if (action === "attempt") this.begin(row, "scheduled");
    else if (action === "hold") this.put(row, held(row));
    else if (action === "resume") this.put(row, resumed(row, this.now));
    else if (action !== "wait") this.put(row, settled(row, action === "expire" ? "exhausted" : "cancelled"));
  }

  private begin({ id, endpoint }: Row, trigger: Trigger) {
    const nature = this.natures.get(endpoint)!;
    const status = this.random() < nature.gone ? 410 : this.random() < nature.succeeds ? 200 : 503;
    const retryAfterMs = this.random() < nature.asks ? this.below(30 * HOUR) : undefined;
    const outcome: Outcome =
      status === 503 && this.below(2) === 0
        ? { answered: false, error: "timeout" }
        : { answered: true, status, retryAfterMs };
    const endsAt = this.now + this.below(nature.lasts + 1);
    const tried = { delivery: id, endpoint, trigger, startedAt: this.now, endsAt, outcome, recorded: false };
    this.tried.push(tried);
    this.running.set(id, tried);
    if (this.random() < this.crashes / 2) this.crash();
  }

  private end(tried: Tried) {
    if (!this.running.delete(tried.delivery)) return; // an end before it in this instant was a crash
    if (this.random() < this.crashes / 2) return this.crash(); // it was answered, but that was not written down
    const row = this.rows.get(tried.delivery)!;
    const judged = judge(row, this.endpoints.get(row.endpoint)!, { ...tried, endedAtMs: tried.endsAt });
    tried.recorded = true;
    this.ends.push(tried);
    this.put(row, judged.delivery);
    this.endpoints.set(row.endpoint, judged.endpoint);
    if (!judged.holdOthers) return;
    for (const other of this.rows.values())
      if (other.endpoint === row.endpoint && other.status === "pending") this.put(other, held(other));
  }

  private put(row: Row, after: Delivery) {
    const settledAt = after.status === row.status ? row.settledAt : this.now;
    this.rows.set(row.id, { ...after, endpoint: row.endpoint, settledAt });
  }
}

const succeeded = ({ outcome }: Tried) => outcome.answered && outcome.status >= 200 && outcome.status < 300;
const WAITS = [5, 60, 600, 3600, 21_600, 43_200].map((seconds) => seconds * SECOND);

/** When the next scheduled attempt may begin, after `made` that are written down: [earliest, latest]. */
function allowed(row: Row, made: readonly Tried[]): [number, number] {
  const last = made.at(-1);
  if (!last) return [row.createdAtMs, row.createdAtMs];
  const wait = WAITS[Math.min(made.length, WAITS.length) - 1]!;
  const spread = made.length === 1 ? 0 : wait / 10 + 1;
  const requestedMs = Math.min(last.outcome.answered ? (last.outcome.retryAfterMs ?? 0) : 0, 2 * wait);
  const lastCall = row.createdAtMs + 72 * HOUR - 60 * SECOND - last.endsAt;
  const earliest = Math.max(wait - spread, Math.min(requestedMs, lastCall));
  return [last.endsAt + earliest, last.endsAt + Math.max(wait + spread, requestedMs)];
}

/** A delivery that was held is tried when its endpoint is enabled again; any other one by its schedule. */
function windowOf(row: Row, before: readonly Tried[], { startedAt }: Tried, enabledAt: readonly number[]) {
  const endedAt = Math.max(row.createdAtMs, ...before.map((each) => each.endsAt));
  const enabling = enabledAt.findLast((at) => at <= startedAt && at > endedAt);
  if (enabling !== undefined) return [enabling, enabling] as const;
  return allowed(
    row,
    before.filter((other) => other.trigger !== "manual"),
  );
}

function checkDelivery(row: Row, tried: readonly Tried[], { restarts, enabledAt }: Simulation) {
  const expiry = row.createdAtMs + 72 * HOUR;
  const scheduled = tried.filter((each) => each.trigger !== "manual");
  const recorded = tried.filter((each) => each.recorded);
  expect([row.attemptCount, row.scheduledCount]).toEqual([
    recorded.length,
    scheduled.filter((each) => each.recorded).length,
  ]);
  expect(row.status === "pending" || row.settledAt === null).toBe(false); // nothing is lost or left
  expect(row.status === "succeeded").toBe(recorded.some(succeeded));
  const success = tried.findIndex((each) => each.recorded && succeeded(each));
  expect(success < 0 || tried.slice(success + 1).every((each) => each.trigger === "manual")).toBe(true);
  for (const [i, each] of tried.entries()) {
    if (each.trigger === "manual") continue;
    const before = tried.slice(0, i).filter((other) => other.recorded);
    const [earliest, latest] = windowOf(row, before, each, enabledAt.get(row.endpoint) ?? []);
    const gates = [...restarts.filter((at) => at <= each.startedAt), ...before.map((other) => other.endsAt)];
    const held = Math.max(0, ...gates); // the server was down, or the delivery under way by hand
    expect(each.startedAt).toBeWithin(Math.floor(Math.max(earliest, held)), Math.ceil(Math.max(latest, held)) + 1);
    expect(each.startedAt).toBeLessThan(expiry);
  }
  if (row.status !== "exhausted") return;
  const ends = [expiry, ...restarts, ...tried.map((each) => each.endsAt)].filter((at) => at >= expiry);
  expect(ends).toContain(row.settledAt!);
}

function checkEndpoint(id: string, { endpoints, enabledAfter, ends }: Simulation) {
  const { status, consecutiveFailures, disabledAtMs } = endpoints.get(id)!;
  const first = new Map(ends.toReversed().map((each) => [each.delivery, each]));
  const since = ends.slice(enabledAfter.get(id) ?? 0).filter((each) => each.endpoint === id);
  const counted = since.slice(since.findLastIndex(succeeded) + 1).filter((each) => first.get(each.delivery) === each);
  expect(consecutiveFailures).toBe(counted.length);
  const isGone = ({ outcome }: Tried) => outcome.answered && outcome.status === 410;
  let row = 0;
  const disabling = since.find((each) => {
    row = succeeded(each) ? 0 : row + (first.get(each.delivery) === each ? 1 : 0);
    return row >= 50 || isGone(each);
  });
  if (status === "enabled") expect(disabling).toBeUndefined();
  if (disabledAtMs !== null) expect(disabledAtMs).toBe(disabling!.endsAt);
}

describe("random histories", () => {
  test("P7 P16 no delivery is lost, early, late or made again after a success, and every count is right", () => {
    const seen = new Map<string, number>();
    const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1);
    for (let seed = FIRST; seed < FIRST + HISTORIES; seed++) {
      const simulation = new Simulation(openRandom(20_260_101, seed)).run();
      try {
        for (const row of simulation.rows.values()) {
          const tried = simulation.tried.filter((each) => each.delivery === row.id);
          checkDelivery(row, tried, simulation);
          count(row.status);
          if (tried.some((each) => !each.recorded)) count("cut off");
          if (row.scheduledCount >= 11) count("all of the schedule");
          const enabledAt = simulation.enabledAt.get(row.endpoint) ?? [];
          if (tried.some((each) => enabledAt.includes(each.startedAt))) count("resumed");
        }
        for (const id of simulation.endpoints.keys()) checkEndpoint(id, simulation);
      } catch (error) {
        throw new Error(`VERK_TEST_SEED=${SEED}, history ${seed}: ${(error as Error).message}`, { cause: error });
      }
      for (const { disabledAtMs, consecutiveFailures } of simulation.endpoints.values())
        if (disabledAtMs !== null) count(consecutiveFailures >= 50 ? "disabled by fifty" : "disabled by 410");
    }
    const situations = ["succeeded", "failed", "exhausted", "cancelled", "cut off", "all of the schedule"];
    for (const what of [...situations, "disabled by fifty", "disabled by 410", "resumed"])
      expect(`${what}: ${(seen.get(what) ?? 0) >= HISTORIES / 500}`).toBe(`${what}: true`); // or it was not tried
  }, 60_000);
});
