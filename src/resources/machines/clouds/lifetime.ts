/** The two long acts of a machine: its start with `up`, and its end with `down`. Each can be killed at any line. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { errorText } from "../../../lib/error_text.ts";
import { OutsideError } from "../../../lib/json/outside.ts";
import { isoTime } from "../../../lib/time.ts";
import { MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import type { Cloud } from "../../../platform/config/cloud.ts";
import { durable } from "../../../platform/db/db.ts";
import { scanHostKey } from "../../../platform/providers/host_key.ts";
import { removeLease, writeLease } from "../../../platform/providers/leases.ts";
import { NodeError, Unreachable } from "../../../platform/providers/types.ts";
import { addressOf, providerOf } from "../regions/provider.ts";
import { type RegionRow, regions } from "../regions/table.ts";
import { current } from "./account.ts";
import { CommandError, runCommand } from "./commands.ts";
import { keepKey } from "./key.ts";
import * as moves from "./moves.ts";
import { readAddress } from "./output.ts";
import { pauseMs } from "./policy.ts";
import type { MachineRow } from "./table.ts";

const leaseOf = (row: MachineRow, trouble: string | null = null) => ({
  name: row.name,
  cloud: row.cloud,
  workspace_id: row.workspaceId,
  region_id: row.regionId,
  created_at: isoTime(row.createdAt),
  trouble,
});

/** The lease is on the disk before the command is called. A start that fails ends the machine. */
export async function bringUp(ctx: Ctx, row: MachineRow, cloud: Cloud): Promise<void> {
  const { failures } = ctx.state.clouds;
  try {
    await durable(ctx.db);
    await keepKey(ctx.config.data_dir);
    writeLease(ctx.config.data_dir, leaseOf(row));
    const until = ctx.clock.steady() + cloud.up_minutes * MINUTE_MS;
    const output = await runCommand(ctx, { cloud, command: "up", machine: row.name, signal: ctx.closing });
    const address = readAddress(output);
    moves.beginCounting(ctx, row, address);
    const hostKey = await reach(ctx, row.id, until);
    if (!moves.ready(ctx, row.id, hostKey)) return;
    failures.delete(row.regionId);
    ctx.log.info("a machine is ready", { machine: row.name, cloud: cloud.name, address: address.address });
    ctx.wake("training_jobs.reconcile");
    ctx.wake("deployments.reconcile");
  } catch (error) {
    if (ctx.closing.aborted) return; // the next server ends it
    const isTheirs = error instanceof CommandError || error instanceof OutsideError || error instanceof NodeError;
    const reason = errorText(error).slice(0, MOST_REASON);
    if (!isTheirs && !(error instanceof Unreachable)) ctx.log.error("a machine could not be started", { error });
    const count = (failures.get(row.regionId)?.count ?? 0) + 1;
    failures.set(row.regionId, { count, notBefore: ctx.clock.steady() + pauseMs(count), reason });
    moves.end(ctx, row.id, reason);
  }
}

const MOST_REASON = 500;
const TRY_MS = 2 * SECOND_MS;

/** Waits until the machine answers as a node does. Returns its host key, which is pinned from its first answer on. */
async function reach(ctx: Ctx, id: string, until: number): Promise<string> {
  const { providers } = ctx.state.regions;
  for (;;) {
    try {
      const row = current(ctx.db, id);
      const region = row && regionOf(ctx, row);
      if (!row || !region) throw new NodeError("its region is gone");
      const { address, port, user } = row;
      const hostKey = row.hostKey || (await scanHostKey(await addressOf(ctx, address), port));
      providers.delete(region.id);
      await providerOf(ctx, { ...region, address, port, user, hostKey }).info();
      return hostKey;
    } catch (error) {
      const isLate = ctx.clock.steady() >= until;
      if (ctx.closing.aborted || isLate || !(error instanceof Unreachable)) throw error;
    }
    await ctx.clock.sleep(TRY_MS, ctx.closing);
  }
}

const regionOf = (ctx: Ctx, { regionId }: MachineRow): RegionRow | undefined =>
  ctx.db.select().from(regions).where(eq(regions.id, regionId)).get();

/** Calls `down` once for a machine that is ending. A failure is recorded, and the next call comes after a pause. */
export async function bringDown(ctx: Ctx, row: MachineRow, signal?: AbortSignal): Promise<void> {
  const { data_dir: dataDir } = ctx.config;
  const cloud = ctx.clouds.find(({ name }) => name === row.cloud);
  try {
    if (!cloud) throw new CommandError(`The cloud ${row.cloud} is not in clouds.files any more`);
    await runCommand(ctx, { cloud, command: "down", machine: row.name, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    moves.recordFailure(ctx, row.id, error.message);
    ctx.log.error("a machine does not end, and costs money", { machine: row.name, cloud: row.cloud, error });
    writeLease(dataDir, leaseOf(row, error.message));
    return;
  }
  moves.finish(ctx, row.id);
  await durable(ctx.db);
  removeLease(dataDir, row.name);
  ctx.state.clouds.missed.delete(row.id);
  ctx.log.info("a machine has ended", { machine: row.name, cloud: row.cloud, reason: row.fault });
}
