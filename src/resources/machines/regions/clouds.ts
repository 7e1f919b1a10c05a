/** The regions of kind `exec`: each workspace that may use a cloud has one, under the name of the cloud. */
import { and, eq, notExists, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { newId } from "../../../lib/ids.ts";
import { microsOf } from "../../../lib/money.ts";
import { GIB, SECOND_MS } from "../../../lib/units.ts";
import { VERSION } from "../../../lib/version.ts";
import type { Cloud } from "../../../platform/config/cloud.ts";
import { write } from "../../../platform/db/db.ts";
import type { NodeInfo } from "../../../platform/providers/protocol.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { present } from "./schema.ts";
import { type RegionRow, regions } from "./table.ts";

const KEEP_MS = 5 * SECOND_MS;
/** Regions of one commit. */
const MOST_ADDED = 500;
const NO_FILE = "the operator has removed the cloud from clouds.files";

/** Adds the regions that workspaces lack. A workspace with another region of that name does not get the cloud. */
export function keepRegions(ctx: Ctx) {
  const live = ctx.state.regions;
  const now = ctx.clock.steady();
  if (now - live.cloudsKeptAt < KEEP_MS) return;
  if (live.cloudsKeptAt === Number.NEGATIVE_INFINITY) refresh(ctx);
  live.cloudsKeptAt = now;
  for (const cloud of ctx.clouds) addMissing(ctx, cloud);
}

/** Everything of a region that follows from the file of its cloud. */
const shapeOf = (cloud: Cloud) => ({
  workDir: cloud.work_dir,
  rateMicros: microsOf(cloud.rate_usd_per_hour),
  info: infoOf(cloud),
  fault: null,
});

/** The hardware as the operator declares it: without a machine, nothing can be asked. */
function infoOf({ gpu_type: type, gpu_count: count, memory_gib: gib }: Cloud): NodeInfo {
  const bytes = Math.round(gib * GIB);
  const gpus = type === "cpu" ? [] : Array.from({ length: count }, () => ({ type, memory_bytes: bytes }));
  return { version: VERSION, architecture: "", cpus: 0, memory_bytes: bytes, free_bytes: 0, gpus };
}

/** Once in each process, because the settings never change. */
function refresh(ctx: Ctx) {
  const rows = ctx.db.select().from(regions).where(eq(regions.kind, "exec")).all();
  for (const row of rows) {
    const cloud = ctx.clouds.find(({ name }) => name === row.name);
    const isAllowed = cloud !== undefined && mayUse(ctx, cloud, row.workspaceId);
    const shape = isAllowed
      ? shapeOf(cloud)
      : { fault: cloud ? "the operator has not allowed this workspace" : NO_FILE };
    write(ctx.db, (tx) => tx.update(regions).set(shape).where(eq(regions.id, row.id)).run());
  }
}

function mayUse(ctx: Ctx, cloud: Cloud, workspaceId: string): boolean {
  if (cloud.workspaces.length === 0) return true;
  const row = ctx.db.select().from(workspaces).where(eq(workspaces.id, workspaceId)).get();
  return row !== undefined && [row.id, row.name].some((text) => cloud.workspaces.includes(text));
}

function addMissing(ctx: Ctx, cloud: Cloud) {
  const named = ctx.db
    .select({ one: sql`1` })
    .from(regions)
    .where(and(eq(regions.workspaceId, workspaces.id), eq(regions.name, cloud.name)));
  const lacking = ctx.db
    .select({ id: workspaces.id })
    .from(workspaces)
    .where(and(eq(workspaces.status, "active"), notExists(named)))
    .limit(MOST_ADDED)
    .all()
    .filter(({ id }) => mayUse(ctx, cloud, id));
  if (lacking.length === 0) return;
  const now = ctx.clock.now();
  const nowhere = { address: "", port: 22, user: cloud.user, sshKeyId: "", hostKey: "", slurm: null, seenAt: null };
  write(ctx.db, (tx) => {
    for (const { id: workspaceId } of lacking) {
      const row: RegionRow = {
        id: newId("reg", now),
        workspaceId,
        name: cloud.name,
        kind: "exec",
        ...nowhere,
        ...shapeOf(cloud),
        createdAt: now,
        updatedAt: now,
      };
      tx.insert(regions).values(row).run();
      emit(tx, "region.created", { workspaceId, now }, present(row));
    }
  });
}
