/**
 * The loop `clouds.reconcile`: starts machines for work that waits, charges their minutes, and ends those without work.
 * All decisions are made from rows, lease files and the list of the cloud, so a killed server only delays them.
 */

import { lt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { DAY_MS, MINUTE_MS } from "../../../lib/units.ts";
import type { Cloud } from "../../../platform/config/cloud.ts";
import { write } from "../../../platform/db/db.ts";
import * as billing from "../../money/billing/service.ts";
import { keepRegions } from "../regions/clouds.ts";
import * as regions from "../regions/service.ts";
import type { RegionRow } from "../regions/table.ts";
import { keepAccount } from "./account.ts";
import { killLeftCommands } from "./commands.ts";
import { bringDown, bringUp } from "./lifetime.ts";
import * as moves from "./moves.ts";
import { isDue, judge, REQUEST_MS, shouldStart } from "./policy.ts";
import { isSweepDue, sweep } from "./sweep.ts";
import { type MachineRow, machines } from "./table.ts";

const RETENTION_DAYS = 400;

/** Call it once, at the start: nothing of an earlier process goes on making machines. */
export async function begin(ctx: Ctx): Promise<void> {
  if (ctx.clouds.length === 0) return;
  const killed = await killLeftCommands(ctx.config.data_dir);
  if (killed.length > 0) ctx.log.warn("ended commands of clouds that an earlier server had left", { pids: killed });
}

export function reconcile(ctx: Ctx) {
  if (ctx.closing.aborted) return;
  keepRegions(ctx);
  for (const row of moves.liveMachines(ctx.db)) {
    try {
      reconcileOne(ctx, row);
    } catch (error) {
      ctx.log.error("a machine could not be reconciled", { machine: row.name, error }); // the others go on
    }
  }
  startRequested(ctx);
  const { sweeping } = ctx.state.clouds;
  for (const cloud of ctx.clouds) {
    if (sweeping.has(cloud.name) || !isSweepDue(ctx, cloud)) continue;
    const work = sweep(ctx, cloud)
      .catch((error) => ctx.log.error("a cloud could not be swept", { cloud: cloud.name, error }))
      .finally(() => sweeping.delete(cloud.name));
    sweeping.set(cloud.name, work);
  }
}

const payerOf = ({ workspaceId, apiKeyId }: MachineRow) => ({ workspaceId, keyId: apiKeyId });

function reconcileOne(ctx: Ctx, row: MachineRow) {
  keepAccount(ctx, row);
  const now = ctx.clock.now();
  if (row.status === "ending") {
    if (isDue(row.notBefore, now)) inBackground(ctx, row, () => bringDown(ctx, row));
    return;
  }
  const cloud = ctx.clouds.find(({ name }) => name === row.cloud);
  const verdict = judge({
    row,
    isBusy: regions.isBusy(ctx, row.regionId),
    isRequested: requestOf(ctx, row.regionId) !== undefined,
    canPay: row.rateMicros === 0 || billing.shortageOf(ctx, payerOf(row)) === null,
    isAllowed: cloud !== undefined && regions.ofCloud(ctx, row.regionId) !== undefined,
    isStarting: ctx.state.clouds.starting.has(row.id),
    missed: ctx.state.clouds.missed.get(row.id) ?? 0,
    idleMs: (cloud?.idle_minutes ?? 0) * MINUTE_MS,
    now,
  });
  if (verdict.act === "keep") return moves.setIdle(ctx, row, verdict.idleSince);
  const ending = moves.end(ctx, row.id, verdict.reason);
  if (ending) inBackground(ctx, row, () => bringDown(ctx, ending));
}

/** One act for a machine at a time. */
function inBackground(ctx: Ctx, { id, name }: MachineRow, act: () => Promise<void>) {
  const { tasks } = ctx.state.clouds;
  if (tasks.has(id)) return;
  const task = act()
    .catch((error) => ctx.log.error("a machine could not be started or ended", { machine: name, error }))
    .finally(() => {
      tasks.delete(id);
      ctx.wake("clouds.reconcile");
    });
  tasks.set(id, task);
}

/** The request of work that still waits. */
function requestOf(ctx: Ctx, regionId: string) {
  const request = ctx.state.clouds.requests.get(regionId);
  return request && ctx.clock.steady() - request.at <= REQUEST_MS ? request : undefined;
}

function startRequested(ctx: Ctx) {
  const { requests, failures, starting } = ctx.state.clouds;
  for (const regionId of [...requests.keys()]) {
    const request = requestOf(ctx, regionId);
    const region = request && regions.ofCloud(ctx, regionId);
    const cloud = region && ctx.clouds.find(({ name }) => name === region.name);
    if (!request || !region || !cloud) {
      requests.delete(regionId);
      continue;
    }
    const facts = { isRequested: true, ...startFacts(ctx, region, cloud, request.keyId) };
    facts.notBefore = failures.get(regionId)?.notBefore ?? Number.NEGATIVE_INFINITY;
    if (!shouldStart(facts)) continue;
    const row = moves.add(ctx, region, cloud, request.keyId);
    if (!row) continue;
    starting.add(row.id);
    inBackground(ctx, row, () => bringUp(ctx, row, cloud).finally(() => starting.delete(row.id)));
  }
}

export function startFacts(ctx: Ctx, region: RegionRow, cloud: Cloud, keyId: string | null) {
  const machines = moves.liveMachines(ctx.db);
  return {
    machine: machines.find(({ regionId }) => regionId === region.id),
    count: machines.filter((row) => row.cloud === cloud.name).length,
    most: cloud.max_machines,
    canPay: !region.rateMicros || billing.shortageOf(ctx, { workspaceId: region.workspaceId, keyId }) === null,
    notBefore: ctx.state.clouds.failures.get(region.id)?.notBefore ?? Number.NEGATIVE_INFINITY,
    now: ctx.clock.steady(),
  };
}

/** Ends the machines without work, which a stopped server could not. Those with work stay, and the next server goes on. */
export async function close(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const { tasks, sweeping } = ctx.state.clouds;
  const isOver = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => isOver.resolve(), { once: true });
  const work = async () => {
    await Promise.all([...tasks.values(), ...sweeping.values()]);
    const idle = moves.liveMachines(ctx.db).filter(({ regionId }) => !regions.isBusy(ctx, regionId));
    for (const row of idle) moves.end(ctx, row.id, "the server stops");
    const ending = moves.liveMachines(ctx.db).filter(({ status }) => status === "ending");
    await Promise.all(ending.map((row) => bringDown(ctx, row, signal)));
  };
  await Promise.race([work(), isOver.promise]);
}

/** Removes the rows of machines that ended long ago. Their charges stay in the ledger. */
export function prune(ctx: Ctx) {
  const before = ctx.clock.now() - RETENTION_DAYS * DAY_MS;
  write(ctx.db, (tx) => tx.delete(machines).where(lt(machines.endedAt, before)).run());
}
