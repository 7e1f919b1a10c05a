import { asc } from "drizzle-orm";
import { openRandom, type Random } from "../src/lib/training/random.ts";
import { DialError } from "../src/platform/address.ts";
import type { Dial, GuardedResponse } from "../src/platform/http_client.ts";
import { deliver } from "../src/resources/webhooks/deliver.ts";
import { fanOut } from "../src/resources/webhooks/fan_out.ts";
import { liveOf } from "../src/resources/webhooks/live.ts";
import { webhookAttempts, webhookDeliveries, webhookEndpoints } from "../src/resources/webhooks/table.ts";
import { addEndpoint, answerOf, emitCompleted, openRig, type Rig } from "./webhooks_kit.ts";

export const SECOND = 1000;
export const HOUR = 3600 * SECOND;
export const START = Date.UTC(2026, 0, 1);
const TICK_MS = 500; // as in the table of loops

/** A request that reached a receiver; the process that sent it may have died before it knew the answer. */
export type Sent = {
  endpointId: string;
  eventId: string;
  body: string;
  startedAt: number;
  endsAt: number;
  status: number;
};
type Nature = { succeeds: number; gone: number; asks: number; lasts: number };
type Open = { endsAt: number; answer: () => void };
type Deed = { at: number; does: "event" | "crash" };

/** Real rows and real loops over a clock that jumps: receivers fail, the process dies and comes back. */
export class World {
  now = START;
  readonly sent: Sent[] = [];
  readonly restarts: number[] = [START];
  readonly events: string[] = [];
  readonly endpoints: string[] = [];
  private readonly natures = new Map<string, Nature>();
  private readonly random: Random;
  private readonly deeds: Deed[];
  private readonly never = new AbortController().signal;
  private open: Open[] = [];
  private rig: Rig;

  constructor(
    private readonly dir: string,
    seed: number,
  ) {
    this.random = openRandom(20_260_102, seed);
    this.rig = this.start();
    const pick = (of: readonly number[]) => of[this.below(of.length)]!;
    for (let i = 0; i < 1 + this.below(2); i++) {
      const { id } = addEndpoint(this.rig.ctx);
      this.endpoints.push(id);
      const nature = { succeeds: pick([0, 0.05, 0.3, 0.9]), gone: pick([0, 0, 0, 0.02]), asks: pick([0, 0.3]) };
      this.natures.set(id, { ...nature, lasts: pick([0, 30, 100]) });
    }
    const some = (count: number, does: Deed["does"], within: number) =>
      Array.from({ length: count }, (): Deed => ({ at: START + 1 + this.below(within), does }));
    const deeds = [...some(1 + this.below(5), "event", HOUR), ...some(this.below(4), "crash", 80 * HOUR)];
    this.deeds = deeds.sort((a, b) => b.at - a.at); // the next one last
  }

  private below(limit: number) {
    return Math.floor(this.random() * limit);
  }

  private start(): Rig {
    const clock = { now: () => this.now, sleep: () => new Promise<void>(() => {}) };
    return openRig({ dir: this.dir, clock, dial: this.dial });
  }

  private readonly dial: Dial = (url, { signal, body, headers }) => {
    const endpointId = new URL(url).hostname.replace(".example", "").replace("-", "_");
    const nature = this.natures.get(endpointId)!;
    const status = this.random() < nature.gone ? 410 : this.random() < nature.succeeds ? 200 : 503;
    const hangsUp = status === 503 && this.below(2) === 0;
    const asked = this.random() < nature.asks ? { "retry-after": String(this.below(30 * 3600)) } : {};
    const endsAt = this.now + this.below(nature.lasts + 1);
    const text = new TextDecoder().decode(body as Uint8Array);
    this.sent.push({ endpointId, eventId: headers!["webhook-id"]!, body: text, startedAt: this.now, endsAt, status });
    const { promise, resolve, reject } = Promise.withResolvers<GuardedResponse>();
    signal?.addEventListener("abort", () => reject(signal.reason));
    const answer = () =>
      hangsUp ? reject(new DialError("connection", "it hung up")) : resolve(answerOf(status, asked));
    this.open.push({ endsAt, answer });
    return promise;
  };

  /** Until everything has settled and every deed is done. Closes the rows when `look` has seen them. */
  async run<T>(look: (rows: ReturnType<World["rows"]>) => T): Promise<T> {
    for (let rounds = 0; ; rounds++) {
      if (rounds > 5_000) throw new Error("The history does not end");
      const next = this.nextTime();
      if (next === undefined) break;
      this.now = Math.max(this.now, next);
      while ((this.deeds.at(-1)?.at ?? Number.POSITIVE_INFINITY) <= this.now) await this.act(this.deeds.pop()!.does);
      await this.tick();
    }
    const seen = look(this.rows());
    await this.rig.close();
    return seen;
  }

  rows() {
    const { db } = this.rig.ctx;
    return {
      deliveries: db.select().from(webhookDeliveries).all(),
      attempts: db.select().from(webhookAttempts).orderBy(asc(webhookAttempts.number)).all(),
      endpoints: db.select().from(webhookEndpoints).all(),
    };
  }

  private nextTime(): number | undefined {
    const times = [this.deeds.at(-1)?.at, ...this.open.map(({ endsAt }) => endsAt)].filter((at) => at !== undefined);
    const running = [...liveOf(this.rig.ctx.db).lanes.values()].flatMap(({ running }) => [...running.keys()]);
    for (const { id, dueAt } of this.rows().deliveries)
      if (dueAt !== null && !running.includes(id)) times.push(Math.max(this.now + 1, this.onTick(dueAt)));
    return times.length === 0 ? undefined : Math.min(...times);
  }

  private onTick(at: number) {
    const origin = this.restarts.at(-1)!;
    return origin + Math.ceil((at - origin) / TICK_MS) * TICK_MS;
  }

  private async act(does: Deed["does"]) {
    if (does === "event") return void this.events.push(emitCompleted(this.rig.ctx));
    await this.rig.close();
    this.open = [];
    this.now += this.below([1, 20 * SECOND, 6 * HOUR, 90 * HOUR][this.below(4)]!);
    this.rig = this.start();
    this.restarts.push(this.now);
  }

  private async tick() {
    const { ctx } = this.rig;
    const live = liveOf(ctx.db);
    await fanOut(ctx);
    for (let before = -1; before !== this.sent.length; ) {
      before = this.sent.length;
      const ending = this.open.filter(({ endsAt }) => endsAt <= this.now);
      this.open = this.open.filter(({ endsAt }) => endsAt > this.now);
      for (const { answer } of ending) answer();
      while (live.flights.size > this.open.length) await new Promise(setImmediate);
      live.restUntil = 0;
      await deliver(ctx, this.never);
    }
  }
}
