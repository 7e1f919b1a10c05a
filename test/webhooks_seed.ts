/** One history's script: what happens to a workspace and how its receivers answer, all of it from the seed's number. */
import { openRandom, type Random } from "../src/lib/random.ts";
import type { DialError } from "../src/platform/network/address.ts";

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

export type Deed = { at: number; seed: Seed } & (
  | { does: "event"; subject: string }
  | { does: "enable"; endpointId: string }
  | { does: "crash" }
);

/** A receiver's: one of `status` and `error` is there. `asks`: the value of its retry-after. */
export type Answer = {
  lastsMs: number;
  status: number | null;
  error: DialError["code"] | null;
  asks: string | null;
  askedMs: number;
};

type Nature = { succeeds: number; gone: number; asks: number; events: number; spreadMs: number; returns: boolean };
const usual = { gone: 0, asks: 0, spreadMs: HOUR, returns: false };
/** All are equally likely. */
const NATURES: readonly Nature[] = [
  { ...usual, succeeds: 0.95, events: 5, spreadMs: 70 * HOUR },
  { ...usual, succeeds: 0.95, events: 4 },
  { ...usual, succeeds: 0.5, events: 4 },
  { ...usual, succeeds: 0.5, events: 4, asks: 0.5, spreadMs: 10 * MINUTE },
  { ...usual, succeeds: 0.3, events: 3, spreadMs: 30 * HOUR },
  { ...usual, succeeds: 0.3, events: 2, asks: 0.5 },
  { ...usual, succeeds: 0.1, events: 2 },
  { ...usual, succeeds: 0.1, events: 1, asks: 0.3 },
  { ...usual, succeeds: 0, events: 2 },
  { ...usual, succeeds: 0, events: 1, asks: 0.5 },
  { ...usual, succeeds: 0.3, gone: 0.2, events: 4, spreadMs: 20 * HOUR, returns: true },
];
const FIFTY: Nature = { ...usual, succeeds: 0.002, events: 52, spreadMs: MINUTE, returns: true };
const FIFTIES = 0.01;

/** Most events come together with those of other seeds. */
const BURSTS = 0.8;
const BURST_MS = 10 * MINUTE;

const GOOD = [200, 201, 204, 299];
const BAD = [301, 400, 404, 429, 500, 503];
const ERRORS = ["connection", "tls", "unresolved", "address_refused"] as const;

export class Seed {
  readonly workspaceId: string;
  readonly endpoints: readonly string[];
  readonly deeds: readonly Deed[];
  private readonly random: Random;
  private readonly nature: Nature;
  private readonly lastsMs: number;

  constructor(
    readonly number: number,
    startMs: number,
  ) {
    this.random = openRandom(20_260_102, number);
    this.workspaceId = `ws_s${number}`;
    this.nature = this.random() < FIFTIES ? FIFTY : this.pick(NATURES);
    const endpoints = this.random() < 0.2 ? 2 : 1;
    this.endpoints = Array.from({ length: endpoints }, (_, i) => `whk_${number}_${i}`);
    const { events: most, returns } = this.nature;
    const events = this.nature === FIFTY ? most : 1 + this.below(most);
    // Siblings wait for each other where a receiver fails: all of them must fit into the second that is allowed.
    const isMany = this.nature === FIFTY;
    this.lastsMs = isMany ? 0 : events === 1 && !returns ? this.pick([0, 100, 10 * SECOND]) : this.pick([0, 0, 30, 90]);
    this.deeds = this.plan(startMs, events);
  }

  private plan(startMs: number, events: number): Deed[] {
    const { spreadMs, returns } = this.nature;
    const deeds: Deed[] = [];
    const add = (at: number) =>
      deeds.push({ at, does: "event", subject: `job_${this.number}_${deeds.length}`, seed: this });
    for (let i = 0; i < events; i++) {
      const at = this.below(spreadMs);
      add(startMs + 1 + (this.random() < BURSTS ? at - (at % BURST_MS) : at));
    }
    if (returns && this.random() < 0.7)
      for (const endpointId of this.endpoints) {
        const at = startMs + HOUR + this.below(70 * HOUR);
        deeds.push({ at, does: "enable", endpointId, seed: this });
        add(at + 1 + this.below(HOUR));
      }
    const soon = this.random() < 0.5;
    if (this.random() < 0.12)
      deeds.push({ at: startMs + 2 + this.below(soon ? HOUR : 80 * HOUR), does: "crash", seed: this });
    return deeds;
  }

  answer(nowMs: number): Answer {
    const { gone, succeeds, asks } = this.nature;
    const lastsMs = this.below(this.lastsMs + 1);
    const none = { lastsMs, status: null, error: null, asks: null, askedMs: 0 };
    if (this.random() < gone) return { ...none, status: 410 };
    if (this.random() < succeeds) return { ...none, status: this.pick(GOOD) };
    if (this.lastsMs === 10 * SECOND && this.below(3) === 0) return { ...none, lastsMs: 10 * SECOND, error: "timeout" };
    if (this.below(3) === 0) return { ...none, error: this.pick(ERRORS) };
    const bad = { ...none, status: this.pick(BAD) };
    return this.random() < asks ? { ...bad, ...this.ask(nowMs + lastsMs) } : bad;
  }

  /** In seconds or as a date, from nothing to far more than is granted. */
  private ask(endsAt: number) {
    const seconds = this.below(this.pick([12, 150, 1500, 9000, 90_000]));
    if (this.below(2) === 0) return { asks: String(seconds), askedMs: seconds * SECOND };
    const date = Math.ceil(endsAt / SECOND + seconds) * SECOND;
    return { asks: new Date(date).toUTCString(), askedMs: date - endsAt };
  }

  below(limit: number) {
    return Math.floor(this.random() * limit);
  }

  pick<T>(of: readonly T[]): T {
    return of[this.below(of.length)]!;
  }
}
