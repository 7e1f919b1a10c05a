/**
 * Asks a cloud which machines exist, and ends those of this server that no live lease explains: a killed server, a
 * restored database or a late `up` may have left them.
 */
import type { Ctx } from "../../../context.ts";
import { OutsideError } from "../../../lib/json/outside.ts";
import type { Cloud } from "../../../platform/config/cloud.ts";
import { counter } from "../../../platform/metrics.ts";
import { readLeases, removeLease, serverId } from "../../../platform/providers/leases.ts";
import { CommandError, runCommand } from "./commands.ts";
import { keepKey } from "./key.ts";
import * as moves from "./moves.ts";
import { readNames } from "./output.ts";
import { orphansOf, ownNames, pauseMs, SWEEP_MS } from "./policy.ts";

const orphaned = counter("verk_cloud_orphans_total", "Machines of this server that no lease explained, by cloud", [
  "cloud",
]);

const namesOf = (ctx: Ctx) => moves.liveMachines(ctx.db).map(({ name }) => name);

export async function sweep(ctx: Ctx, cloud: Cloud): Promise<void> {
  const { sweeps, missed } = ctx.state.clouds;
  const { data_dir: dataDir } = ctx.config;
  const failures = sweeps.get(cloud.name)?.failures ?? 0;
  const before = namesOf(ctx);
  try {
    await keepKey(dataDir);
    const own = ownNames(readNames(await runCommand(ctx, { cloud, command: "list" })), serverId(dataDir), cloud.name);
    for (const { id, name, status, cloud: place } of moves.liveMachines(ctx.db))
      if (place === cloud.name && status === "ready")
        missed.set(id, own.includes(name) ? 0 : (missed.get(id) ?? 0) + 1);
    // A machine may have begun or ended while the command ran.
    const leased = new Set([...before, ...namesOf(ctx)]);
    const orphans = orphansOf(own, leased);
    for (const name of orphans) raiseAlarm(ctx, cloud, name);
    const stale = readLeases(dataDir).filter((lease) => lease.cloud === cloud.name && !leased.has(lease.name));
    const left: string[] = [];
    for (const name of new Set([...orphans, ...stale.map((lease) => lease.name)]))
      if (!(await endQuietly(ctx, cloud, name))) left.push(name);
    const next = left.length > 0 ? failures + 1 : 0;
    sweeps.set(cloud.name, { at: ctx.clock.steady(), failures: next, orphans: left });
  } catch (error) {
    if (!(error instanceof CommandError) && !(error instanceof OutsideError)) throw error;
    const { orphans = [] } = sweeps.get(cloud.name) ?? {};
    sweeps.set(cloud.name, { at: ctx.clock.steady(), failures: failures + 1, orphans });
    if (error instanceof OutsideError) ctx.log.error("a cloud cannot be asked for its machines", { error });
  }
}

function raiseAlarm(ctx: Ctx, cloud: Cloud, name: string) {
  orphaned.add(ctx.db, "", [cloud.name]);
  ctx.log.error("a machine that no lease explains is ended", { machine: name, cloud: cloud.name });
  moves.reportOrphan(ctx, name);
}

/** False: the next sweep tries again. */
async function endQuietly(ctx: Ctx, cloud: Cloud, machine: string): Promise<boolean> {
  try {
    await runCommand(ctx, { cloud, command: "down", machine });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return false; // the log has the reason
  }
  removeLease(ctx.config.data_dir, machine);
  return true;
}

/** A sweep that left something comes again soon. */
export function isSweepDue(ctx: Ctx, cloud: Cloud): boolean {
  const last = ctx.state.clouds.sweeps.get(cloud.name);
  if (!last) return true;
  const pause = last.failures > 0 ? pauseMs(last.failures) : SWEEP_MS;
  return ctx.clock.steady() - last.at >= pause;
}
