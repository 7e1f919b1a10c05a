/** Machines of clouds, for the work that runs on them. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { RegionRow } from "../regions/table.ts";
import { machineOf } from "./moves.ts";
import { reasonToWait } from "./policy.ts";
import { startFacts } from "./reconcile.ts";
import { present } from "./schema.ts";
import { machines } from "./table.ts";

/**
 * Undefined: work can begin in the region now. Otherwise the reason why it waits; a machine is made for it meanwhile.
 * Work that waits calls this about once a second.
 */
export function waitForMachine(ctx: Ctx, region: RegionRow, keyId: string | null): string | undefined {
  if (region.kind !== "exec") return undefined;
  const row = machineOf(ctx.db, region.id);
  const { requests, failures } = ctx.state.clouds;
  const isNew = !requests.has(region.id);
  requests.set(region.id, { at: ctx.clock.steady(), keyId });
  if (row?.status === "ready") return undefined;
  if (isNew) ctx.wake("clouds.reconcile");
  const cloud = ctx.clouds.find(({ name }) => name === region.name);
  if (!cloud) return `waits for a machine of ${region.name}: the operator has removed the cloud`;
  const failure = failures.get(region.id);
  const reason = reasonToWait(startFacts(ctx, region, cloud, keyId)) ?? "a machine is being made";
  return `waits for a machine of ${region.name}: ${reason}${failure ? ` (${failure.reason})` : ""}`;
}

/** The machine of a region is gone, and with it everything that ran there. */
export const isGone = (region: Pick<RegionRow, "kind" | "address">): boolean =>
  region.kind === "exec" && region.address === "";

/** Newest first. */
export const list = (ctx: Pick<Ctx, "db">, workspaceId: string, query: PageQuery) =>
  page(ctx.db, machines, eq(machines.workspaceId, workspaceId), query, present);
