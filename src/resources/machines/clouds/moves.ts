/** Every change of a machine's row, with its charge, its event and its region in the same commit. */
import { randomBytes } from "node:crypto";
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { newId } from "../../../lib/ids.ts";
import type { Cloud } from "../../../platform/config/cloud.ts";
import { afterCommit, type Db, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { serverId } from "../../../platform/providers/leases.ts";
import { beginRun } from "../../money/billing/run_time.ts";
import { type RegionRow, regions } from "../regions/table.ts";
import { current, settle } from "./account.ts";
import { machine, report } from "./machine.ts";
import type { Address } from "./output.ts";
import { nameFor, pauseMs } from "./policy.ts";
import { type MachineRow, machines } from "./table.ts";

const unended = prepared((db) =>
  db.select().from(machines).where(isNull(machines.endedAt)).orderBy(machines.createdAt).prepare(),
);
export const liveMachines = (db: Db | Tx): MachineRow[] => unended(db).all();

export const machineOf = (db: Db | Tx, regionId: string): MachineRow | undefined =>
  db
    .select()
    .from(machines)
    .where(and(eq(machines.regionId, regionId), isNull(machines.endedAt)))
    .get();

/** Undefined if the region has a machine already. */
export function add(ctx: Ctx, region: RegionRow, cloud: Cloud, keyId: string | null): MachineRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    if (machineOf(tx, region.id)) return undefined;
    const row = tx
      .insert(machines)
      .values({
        id: newId("mch", now),
        workspaceId: region.workspaceId,
        regionId: region.id,
        apiKeyId: keyId,
        cloud: cloud.name,
        name: nameFor(serverId(ctx.config.data_dir), cloud.name, randomBytes(16)),
        status: "starting",
        address: "",
        port: region.port,
        user: cloud.user,
        hostKey: "",
        gpuType: cloud.gpu_type,
        gpuCount: cloud.gpu_count,
        rateMicros: (region.rateMicros ?? 0) * cloud.gpu_count,
        upSince: null,
        uptimeMs: 0,
        costMicros: 0,
        costRemainder: 0,
        idleSince: null,
        fault: null,
        attempts: 0,
        notBefore: null,
        createdAt: now,
        readyAt: null,
        endedAt: null,
        updatedAt: now,
      })
      .returning()
      .get();
    emit(tx, "machine.created", { workspaceId: row.workspaceId, now }, report(row));
    return row;
  });
}

/** `up` has printed the address: the machine exists, and its minutes count. */
export function beginCounting(ctx: Ctx, row: MachineRow, { address, port, user, hostKey }: Address) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    tx.update(machines)
      .set({ address, port, user: user ?? row.user, hostKey: hostKey ?? "", upSince: now, updatedAt: now })
      .where(eq(machines.id, row.id))
      .run();
    afterCommit(tx, () => beginRun(ctx, row.id));
  });
}

/** From now on, work of the region runs on the machine. False: it was ended meanwhile. */
export function ready(ctx: Ctx, id: string, hostKey: string): boolean {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = transition(tx, machine, "ready", { id, now }, { hostKey, readyAt: now, idleSince: now });
    if (!row) return false;
    const { address, port, user } = row;
    tx.update(regions)
      .set({ address, port, user, hostKey, seenAt: now, updatedAt: now })
      .where(eq(regions.id, row.regionId))
      .run();
    return true;
  });
}

/** No work begins there any more. `down` follows. */
export function end(ctx: Ctx, id: string, fault: string): MachineRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = transition(tx, machine, "end", { id, now }, { fault });
    if (!row) return undefined;
    const nowhere = { address: "", hostKey: "", updatedAt: now };
    tx.update(regions).set(nowhere).where(eq(regions.id, row.regionId)).run();
    afterCommit(tx, () => ctx.state.regions.providers.delete(row.regionId));
    return row;
  });
}

/** `down` has succeeded. */
export function finish(ctx: Ctx, id: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (row?.status !== "ending") return;
    settle(ctx, tx, row, { ends: true });
    transition(tx, machine, "finish", { id, now }, { endedAt: now, notBefore: null });
  });
}

/** `down` has failed. The first failure is an event; all are in the log. */
export function recordFailure(ctx: Ctx, id: string, fault: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const before = current(tx, id);
    if (before?.status !== "ending") return;
    const attempts = before.attempts + 1;
    const patch = { fault, attempts, notBefore: now + pauseMs(attempts), updatedAt: now };
    tx.update(machines).set(patch).where(eq(machines.id, id)).run();
    const { workspaceId } = before;
    if (attempts === 1) emit(tx, "machine.stuck", { workspaceId, now }, report({ ...before, fault }));
  });
}

export function setIdle(ctx: Ctx, { id, idleSince: before }: MachineRow, idleSince: number | null) {
  if (before === idleSince) return;
  write(ctx.db, (tx) => tx.update(machines).set({ idleSince }).where(eq(machines.id, id)).run());
}

/** A machine that should have ended is still listed. */
export function reportOrphan(ctx: Ctx, name: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const row = tx.select().from(machines).where(eq(machines.name, name)).get();
    if (row) emit(tx, "machine.orphaned", { workspaceId: row.workspaceId, now }, report(row));
  });
}
