/**
 * Many histories side by side over real rows and real loops, with a clock that jumps. Receivers replace `ctx.dial`. A
 * crash is at a failpoint: from there on nothing is sent or written, and the rows are opened again later. `step` numbers
 * everything that happens in one order; `webhooks_judge.ts` judges it.
 */
import { asc } from "drizzle-orm";
import { emit } from "../src/events/emit.ts";
import { events } from "../src/events/table.ts";
import { openRandom, type Random } from "../src/lib/random.ts";
import { openCommit, write } from "../src/platform/db/db.ts";
import { failpoint } from "../src/platform/failpoint.ts";
import { DialError } from "../src/platform/network/address.ts";
import type { Dial, GuardedResponse } from "../src/platform/network/http_client.ts";
import { workspaces } from "../src/resources/access/workspaces/table.ts";
import { deliver } from "../src/resources/watching/webhooks/delivery/deliver.ts";
import { fanOut } from "../src/resources/watching/webhooks/delivery/fan_out.ts";
import * as endpoints from "../src/resources/watching/webhooks/service.ts";
import { webhookAttempts, webhookDeliveries, webhookEndpoints } from "../src/resources/watching/webhooks/table.ts";
import type { Enabled, Happened, Sent, Up } from "./webhooks_judge.ts";
import { addEndpoint, answerOf, dieAt, openRig, type Rig } from "./webhooks_kit.ts";
import { type Deed, HOUR, MINUTE, SECOND, type Seed } from "./webhooks_seed.ts";

const ENDLESS = 10_000; // of some two thousand
const TICK_MS = 500; // as in the table of loops
/** Histories must not hold each other up: that endpoints do not is tested elsewhere. */
const LIMITS = { perEndpoint: 16, quick: 5_000, fresh: 5_000, slow: 5_000, total: 5_000, workspaceShare: 1 };

type Open = { sent: Sent; answer: () => void };

export class World {
  now: number;
  readonly sent: Sent[] = [];
  readonly happened: Happened[] = [];
  readonly enabled: Enabled[] = [];
  readonly up: Up[] = [];
  /** The failpoints. */
  readonly deaths: string[] = [];
  private step = 0;
  private rounds = 0;
  private readonly random: Random;
  private readonly seedOf = new Map<string, { seed: Seed; endpointId: string }>(); // by URL
  private deeds: Deed[];
  private fresh: Deed[] = []; // of this moment: a crash may undo them
  private open: Open[] = [];
  private death: ReturnType<typeof dieAt> | undefined;
  private isNews = true; // the outbox may have new events
  private isWoken = false;
  private rig: Rig;

  constructor(
    private readonly dir: string,
    readonly seeds: readonly Seed[],
    startMs: number,
  ) {
    this.now = startMs;
    this.random = openRandom(20_260_103, seeds[0]!.number);
    this.deeds = inOrder(seeds.flatMap(({ deeds }) => deeds));
    this.rig = this.start();
    const { ctx } = this.rig;
    const made = { status: "active" as const, metadata: {}, createdAt: startMs, updatedAt: startMs };
    for (const seed of seeds) {
      const { workspaceId: id } = seed;
      const row = { ...made, id, name: id, paymentCustomerId: `cus_s${seed.number}` };
      write(ctx.db, (tx) => void tx.insert(workspaces).values(row).run());
      for (const endpointId of seed.endpoints) {
        const url = `https://${endpointId.replaceAll("_", "-")}.example/hook`;
        this.seedOf.set(url, { seed, endpointId });
        addEndpoint(ctx, { id: endpointId, url, workspaceId: id });
      }
    }
  }

  private start(): Rig {
    const clock = { now: () => this.now, steady: () => this.now, sleep: () => new Promise<void>(() => {}) };
    const wake = () => {
      this.isWoken = true;
    };
    const rig = openRig({ dir: this.dir, clock, dial: this.dial, wake, limits: LIMITS });
    this.up.push({ from: this.now, to: Infinity });
    return rig;
  }

  private readonly dial: Dial = async (url, { signal, body, headers }) => {
    failpoint("http.before_send");
    const { seed, endpointId } = this.seedOf.get(String(url))!;
    const answer = seed.answer(this.now);
    const sent: Sent = {
      ...answer,
      endpointId,
      eventId: headers!["webhook-id"]!,
      body: body as Uint8Array,
      startedAt: this.now,
      endsAt: this.now + answer.lastsMs,
      beganStep: ++this.step,
    };
    this.sent.push(sent);
    const { promise, resolve, reject } = Promise.withResolvers<GuardedResponse>();
    signal?.addEventListener("abort", () => reject(signal.reason));
    const { status, error, asks } = answer;
    const report = () =>
      status === null
        ? reject(new DialError(error!, "as scripted"))
        : resolve(answerOf(status, asks === null ? {} : { "retry-after": asks }));
    this.open.push({ sent, answer: report });
    try {
      return await promise;
    } finally {
      failpoint("http.after_send");
    }
  };

  /** Until everything has settled and every deed is done. */
  async run(): Promise<void> {
    const { getRandomValues } = crypto;
    const { setTimeout } = globalThis;
    crypto.getRandomValues = this.fill; // ids decide the jitter: the same seed, the same history
    globalThis.setTimeout = AT_ONCE; // a millisecond that something is held back for is none of this clock's
    try {
      for (let next = this.nextTime(); next !== undefined; next = this.nextTime()) {
        this.now = next;
        await this.moment();
      }
    } finally {
      crypto.getRandomValues = getRandomValues;
      globalThis.setTimeout = setTimeout;
      this.death?.revive();
    }
  }

  private readonly fill = <T>(array: T): T => {
    const bytes = array as Uint8Array;
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(this.random() * 256);
    return array;
  };

  /** The rows for the judge. Closes the database. */
  async rows() {
    const { db } = this.rig.ctx;
    const rows = {
      events: db.select().from(events).all(),
      deliveries: db.select().from(webhookDeliveries).all(),
      attempts: db.select().from(webhookAttempts).orderBy(asc(webhookAttempts.number)).all(),
      endpoints: db.select().from(webhookEndpoints).all(),
    };
    await this.rig.close();
    return rows;
  }

  private nextTime(): number | undefined {
    if (this.isNews) return this.now;
    let next = this.deeds.at(-1)?.at ?? Infinity;
    for (const { sent } of this.open) next = Math.min(next, sent.endsAt);
    const due = this.dueAfter(this.now);
    if (due != null) {
      const { from } = this.up.at(-1)!;
      next = Math.min(next, from + Math.ceil((due - from) / TICK_MS) * TICK_MS);
    }
    if (this.isOverdue()) next = Math.min(next, this.now + TICK_MS);
    return next === Infinity ? undefined : Math.max(this.now, next);
  }

  private dueAfter(ms: number): number | null | undefined {
    const held = "SELECT min(expires_at) FROM webhook_deliveries WHERE status = 'pending' AND due_at IS NULL";
    const sql = `SELECT min(at) at FROM (SELECT min(next_at) at FROM webhook_deliveries WHERE next_at > ?1
      UNION ALL ${held} AND expires_at > ?1)`;
    return this.rig.ctx.db.$client.query<{ at: number | null }, [number]>(sql).get(ms)?.at;
  }

  /** A held delivery has expired. The product checks held deliveries once a second, not in every tick. */
  private isOverdue(): boolean {
    const sql = "SELECT 1 FROM webhook_deliveries WHERE status = 'pending' AND due_at IS NULL AND expires_at <= ?";
    return this.rig.ctx.db.$client.query(sql).get(this.now) != null;
  }

  private async moment() {
    try {
      while ((this.deeds.at(-1)?.at ?? Infinity) <= this.now) await this.act(this.deeds.pop()!);
      await this.tick();
    } catch (error) {
      if (!this.death?.isDead()) throw error;
    }
    if (this.death?.isDead()) await this.restart();
    this.fresh = [];
  }

  private async act(deed: Deed) {
    if (deed.does === "crash") {
      this.death ??= dieAt(1 + Math.floor(this.random() * 12));
      return;
    }
    const { ctx } = this.rig;
    const { workspaceId } = deed.seed;
    if (deed.does === "enable" && endpoints.find(ctx, deed.endpointId)?.status !== "disabled") return;
    this.fresh.push(deed);
    const when = { at: this.now, step: ++this.step };
    if (deed.does === "event") {
      const told = { object: "job" as const, id: deed.subject, status: "completed", model: "verk-tiny" };
      const id = write(ctx.db, (tx) => emit(tx, "job.completed", { workspaceId, now: this.now }, told));
      this.happened.push({ id, subject: deed.subject, ...when });
      this.isNews = true;
    } else {
      this.enabled.push({ endpointId: deed.endpointId, ...when });
      await endpoints.update(ctx, workspaceId, deed.endpointId, { enabled: true });
    }
  }

  private async restart() {
    this.up.at(-1)!.to = this.now;
    await this.rig.close();
    this.deaths.push(this.death!.where());
    this.death!.revive();
    this.death = undefined;
    this.open = [];
    const away = this.random();
    const most = away < 0.5 ? SECOND : away < 0.8 ? MINUTE : away < 0.98 ? 6 * HOUR : 90 * HOUR;
    this.now += 1 + Math.floor(this.random() * most);
    this.rig = this.start();
    this.isNews = true;
    const undone = this.fresh.filter((deed) => !this.isDone(deed));
    this.deeds = inOrder([...this.deeds, ...undone.map((deed) => ({ ...deed, at: this.now }))]);
  }

  /** A caller without an answer checks what was done, and repeats the rest. */
  private isDone(deed: Deed): boolean {
    if (deed.does === "crash") return true;
    const [type, of] = deed.does === "event" ? ["job.completed", deed.subject] : [ENABLED, deed.endpointId];
    const found = this.rig.ctx.db.$client.query("SELECT 1 FROM events WHERE type = ? AND subject_id = ?").get(type, of);
    if (found) return true;
    if (deed.does === "event")
      this.happened.splice(
        this.happened.findIndex(({ subject }) => subject === of),
        1,
      );
    else
      this.enabled.splice(
        this.enabled.findIndex(({ endpointId }) => endpointId === of),
        1,
      );
    return false;
  }

  private async tick() {
    const { ctx } = this.rig;
    if (this.isNews) await fanOut(ctx);
    this.isNews = false;
    for (let isMoving = true; isMoving; ) {
      if (++this.rounds > ENDLESS) throw new Error("These histories do not end");
      const ending = this.takeEnding();
      for (const { sent, answer } of ending) {
        sent.endedStep = ++this.step;
        answer();
      }
      while (ctx.state.webhooks.attempts > this.open.length) await new Promise(setImmediate);
      const before = this.sent.length;
      this.isWoken = false;
      if ((this.dueAfter(0) ?? Infinity) <= this.now) await deliver(ctx, NEVER);
      isMoving = this.isWoken || ending.length > 0 || this.sent.length > before;
    }
    await openCommit(ctx.db);
  }

  /** One for each endpoint at a time, so that the order of their ends is known. */
  private takeEnding(): Open[] {
    const chosen = new Map<string, Open>();
    for (const each of this.open)
      if (each.sent.endsAt <= this.now && !chosen.has(each.sent.endpointId)) chosen.set(each.sent.endpointId, each);
    const ending = new Set(chosen.values());
    if (ending.size > 0) this.open = this.open.filter((each) => !ending.has(each));
    return [...ending];
  }
}

const ENABLED = "webhook_endpoint.enabled"; // a history does it once at most
const AT_ONCE = ((fn: () => void, _ms?: number, ...given: []) =>
  setImmediate(fn, ...given)) as unknown as typeof setTimeout;
const NEVER = new AbortController().signal;
/** The next one last. */
const inOrder = (deeds: Deed[]) => deeds.sort((a, b) => b.at - a.at);
