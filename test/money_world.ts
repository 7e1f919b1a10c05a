import { eq } from "drizzle-orm";
import type { Ctx } from "../src/context.ts";
import { AppError } from "../src/lib/errors.ts";
import { openRandom, type Random } from "../src/lib/random.ts";
import { loadConfig } from "../src/platform/config/config.ts";
import { closeDb, durable, write } from "../src/platform/db/db.ts";
import { failpoints } from "../src/platform/failpoint.ts";
import { createLog } from "../src/platform/log.ts";
import * as workspaces from "../src/resources/access/workspaces/service.ts";
import * as billing from "../src/resources/money/billing/service.ts";
import * as deploying from "../src/resources/serving/deployments/fleet/moves.ts";
import { type DeploymentRow, deployments } from "../src/resources/serving/deployments/table.ts";
import { enforceCredit } from "../src/resources/training/training_jobs/state/credit.ts";
import * as training from "../src/resources/training/training_jobs/state/moves.ts";
import { currentJob } from "../src/resources/training/training_jobs/state/rows.ts";
import { type JobRow, trainingJobs } from "../src/resources/training/training_jobs/table.ts";
import { newState } from "../src/state.ts";
import { jobRow } from "./fake_trainers.ts";
import { Crash } from "./harness.ts";
import { type Deed, type Dice, deploymentDeed, deploymentRow, jobDeed, RATES } from "./money_deeds.ts";
import { openMigrated } from "./template_db.ts";

const START = Date.UTC(2026, 0, 1);
export const INITIAL_MICROS = 5_000_000;

/** The use of a job or a deployment as the test counts it, without the ledger. */
export type Subject = {
  id: string;
  workspaceId: string;
  kind: "job" | "deployment";
  /** The debt, in micro-dollars for an hour × ms. */
  owed: bigint;
  usedMs: number;
  rate: number | null;
  /** The stretch that goes on, in steady time: when it began, when it was last metered, and how many there are. */
  open: { since: number; metered: number; count: number } | null;
};
/** Real rows and the real ledger under a clock that jumps and a process that dies at any commit. */
export class World {
  now = START;
  /** The sum of all changes of the time of day. */
  private setMs = 0;
  crashes = 0;
  lostMs = 0;
  readonly all: Subject[] = [];
  /** Micro-dollars granted, by workspace. */
  readonly granted = new Map<string, bigint>();
  ctx: Ctx;
  private readonly random: Random;

  constructor(
    private readonly dir: string,
    seed: number,
  ) {
    this.random = openRandom(20_260_109, seed);
    this.ctx = this.open();
    for (const name of ["lab", "next door"])
      this.granted.set(workspaces.create(this.ctx, { name, metadata: {} }).id, 0n);
    for (let i = 0; i < 3; i++) this.add("job");
    for (let i = 0; i < 2; i++) this.add("deployment");
  }

  /** The steady clock: a change of the time of day does not move it. */
  private get steady() {
    return this.now - this.setMs;
  }

  private open(): Ctx {
    const db = openMigrated(this.dir);
    const flags = { data_dir: this.dir, "billing.initial_credit_usd": INITIAL_MICROS / 1e6 };
    const clock = { now: () => this.now, steady: () => this.steady, sleep: () => new Promise<void>(() => {}) };
    const log = createLog({ level: "error", write: () => {} });
    const config = loadConfig({ env: { HOME: this.dir }, flags });
    const state = newState({ config, clock });
    return { config, db, clock, log, state, wake: () => {}, closing: new AbortController().signal } as unknown as Ctx; // no other member is used
  }

  private readonly below = (limit: number) => Math.floor(this.random() * limit);
  private readonly pick = <T>(of: readonly T[]): T => of[this.below(of.length)] as T;
  private readonly dice: Dice = { below: this.below, pick: this.pick };

  private add(kind: Subject["kind"]) {
    const rate = this.pick(RATES);
    const { now } = this;
    const workspaceId = this.pick([...this.granted.keys()]);
    const job = jobRow(now, { workspaceId, datasetId: null, rateMicros: rate });
    const deployment = deploymentRow(now, workspaceId, rate);
    write(this.ctx.db, (tx) =>
      kind === "job" ? tx.insert(trainingJobs).values(job).run() : tx.insert(deployments).values(deployment).run(),
    );
    const { id } = kind === "job" ? job : deployment;
    this.all.push({ id, workspaceId, kind, owed: 0n, usedMs: 0, rate, open: null });
  }

  private rowOf({ kind, id }: Subject): JobRow | DeploymentRow {
    const { db } = this.ctx;
    const row = kind === "job" ? currentJob(db, id) : db.select().from(deployments).where(eq(deployments.id, id)).get();
    if (!row) throw new Error(`${id} is gone`);
    return row;
  }

  /** Time passes while the loops run, then one action happens. */
  async go() {
    await durable(this.ctx.db); // writes the rows that were added before
    for (let left = 1 + this.below(this.pick([1_000, 90_000, 600_000])); left > 0; left -= 20_000) {
      this.now += Math.min(left, 20_000);
      await this.loops();
    }
    const what = this.below(30);
    if (what === 0) return this.kill();
    if (what === 1) return this.restart();
    if (what === 2) return this.grant();
    if (what === 3) return this.setClock();
    const seen = this.pick(this.all);
    const { status } = this.rowOf(seen);
    const moment = { workspaceId: seen.workspaceId, isOpen: seen.open !== null, dice: this.dice };
    await this.act(seen, seen.kind === "job" ? jobDeed(status, moment) : deploymentDeed(status, moment));
    const isOver = seen.kind === "job" && (this.rowOf(seen) as JobRow).completedAt !== null && !seen.open;
    if (isOver && this.below(3) === 0) this.add("job");
  }

  /** The time of day changes while everything goes on. */
  private setClock() {
    const by = this.pick([-86_400_000, -61_000, 2_000, 900_000, 31_536_000_000]);
    this.now += by;
    this.setMs += by;
  }

  private async loops() {
    const account = (seen: Subject): Deed["does"] =>
      seen.kind === "job"
        ? (ctx) => training.recordActivity(ctx, this.rowOf(seen) as JobRow)
        : (ctx) => deploying.keepAccount(ctx, this.rowOf(seen) as DeploymentRow, seen.open?.count ?? 1);
    for (const seen of this.all) if (seen.open) await this.act(seen, { does: account(seen), meters: true }, 100);
    enforceCredit(this.ctx);
    await durable(this.ctx.db);
  }

  /** An action that was rejected changes no row and must not change the ledger. */
  private async act(seen: Subject, deed: Deed, odds = 20) {
    const before = JSON.stringify(this.rowOf(seen));
    const crashed = await this.attempt(() => deed.does(this.ctx, seen.id), odds);
    const changed = JSON.stringify(this.rowOf(seen)) !== before;
    if (deed.surely && seen.open && !changed && !crashed) throw new Error(`the run of ${seen.id} has no end`);
    if (changed) this.watch(seen, deed);
    if (crashed) await this.recover();
  }

  private watch(seen: Subject, deed: Deed) {
    const { open } = seen;
    const begun = { since: this.steady, metered: this.steady };
    if (seen.kind === "deployment" && open && (deed.ends || !deed.begins)) {
      this.use(seen, this.steady);
      seen.open = deed.ends ? null : { ...begun, count: deed.counts ?? open.count };
    } else if (open && deed.ends) this.use(seen, this.steady);
    else if (open && deed.meters) open.metered = this.steady;
    if (deed.begins) seen.open = { ...begun, count: 1 };
    if (seen.kind === "deployment") seen.rate = (this.rowOf(seen) as DeploymentRow).costPerHourMicros;
  }

  private use(seen: Subject, until: number) {
    const { since, count } = seen.open!;
    seen.usedMs += until - since;
    seen.owed += BigInt(seen.rate ?? 0) * BigInt(until - since) * BigInt(count);
    seen.open = null;
  }

  /** Sometimes the process dies: before the commit, after it, or at the flush. Returns true if it did. */
  private async attempt(does: () => unknown, odds = 20): Promise<boolean> {
    let left = this.below(odds) === 0 ? 1 + this.below(4) : 0;
    let crashed = false;
    failpoints.hit = (name) => {
      if (--left !== 0) return;
      crashed = true;
      throw new Crash(name);
    };
    try {
      unlessRefused(does);
      await durable(this.ctx.db);
    } catch (error) {
      if (!crashed) throw error;
    } finally {
      delete failpoints.hit;
    }
    if (crashed) this.reopen();
    return crashed;
  }

  /** The state after a kill: changes without a commit are lost. */
  private reopen() {
    this.crashes++;
    try {
      if (this.ctx.db.$client.inTransaction) this.ctx.db.$client.run("ROLLBACK");
      this.ctx.db.$client.close();
    } catch {} // the database is closed already
    this.ctx = this.open();
  }

  private async kill() {
    this.reopen();
    await this.recover();
  }

  private async restart() {
    for (const seen of this.all)
      if (seen.kind === "job")
        await this.act(seen, { does: (ctx, id) => training.suspend(ctx, id), ends: true, surely: true });
    const crashed = await this.attempt(() => deploying.keepAllAccounts(this.ctx));
    for (const seen of this.all)
      if (seen.kind === "deployment" && seen.open && (this.rowOf(seen) as DeploymentRow).upSince === null)
        this.use(seen, this.steady);
    if (!crashed) closeDb(this.ctx.db);
    if (!crashed) this.ctx = this.open();
    await this.recover();
  }

  /** The next start, which may die too. What was not metered before the kill is not charged. */
  private async recover() {
    for (const seen of this.all) {
      if (!seen.open) continue;
      this.lostMs = Math.max(this.lostMs, this.steady - (seen.kind === "job" ? seen.open.metered : seen.open.since));
      if (seen.kind === "job") this.use(seen, seen.open.metered);
      else seen.open = null;
    }
    this.now += this.pick([1, 1, -1]) * (1 + this.below(86_400_000)); // the clock may lose its time while the machine is off
    const begin = () => {
      billing.begin(this.ctx);
      deploying.recover(this.ctx);
      training.requeueInterrupted(this.ctx);
    };
    while (await this.attempt(begin)) this.now += 1;
  }

  private async grant() {
    const workspaceId = this.pick([...this.granted.keys()]);
    const usd = this.pick([-1, 0.000001, 1, 250, 9_000]);
    const count = () =>
      this.ctx.db.$client.query("SELECT count(*) AS n FROM ledger_entries WHERE kind = 'grant'").get();
    const before = JSON.stringify(count());
    const crashed = await this.attempt(() => billing.grant(this.ctx, { workspaceId, usd }));
    if (JSON.stringify(count()) !== before)
      this.granted.set(workspaceId, this.granted.get(workspaceId)! + BigInt(Math.round(usd * 1e6)));
    if (crashed) await this.recover();
  }

  close() {
    closeDb(this.ctx.db);
  }
}

/** An action that is not allowed in the present state throws an AppError. */
function unlessRefused(does: () => unknown) {
  try {
    does();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
  }
}
