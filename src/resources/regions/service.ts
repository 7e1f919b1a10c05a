import type { Ctx } from "../../context.ts";
import type { PageQuery } from "../../http/answer/pagination.ts";
import { AppError } from "../../lib/errors.ts";
import { listGpus } from "../../platform/machine/hardware.ts";
import type { Region } from "./schema.ts";

type Probe = () => Promise<readonly { type: string }[]>;

const KEEP_MS = 60_000;
const DRIVER_TIMEOUT_MS = 2_000;

/** This machine is the only region. */
export async function list(ctx: Ctx, query: PageQuery, probe: Probe = listGpus) {
  const all = [await local(ctx, probe)];
  if (query.after !== undefined && all.every((region) => region.id !== query.after))
    throw new AppError("invalid_cursor", `after: no item ${query.after.slice(0, 80)} in this list`, { param: "after" });
  const rest = all.slice(all.findIndex((region) => region.id === query.after) + 1);
  return { object: "list", data: rest.slice(0, query.limit), has_more: rest.length > query.limit };
}

export async function mustGet(ctx: Ctx, id: string, probe: Probe = listGpus): Promise<Region> {
  if (id !== "local")
    throw new AppError("resource_not_found", `No region ${id.slice(0, 80)}: GET /v1/regions lists them`, {
      param: "id",
    });
  return await local(ctx, probe);
}

const local = async (ctx: Ctx, probe: Probe): Promise<Region> => ({
  object: "region",
  id: "local",
  name: "This machine",
  provider: "local",
  available: true, // the CPU takes work where there is no GPU
  gpu_types: await gpuTypes(ctx, probe),
});

/**
 * The driver is called at most once a minute, by one child at a time. A driver that hangs costs the caller two seconds
 * and the last known answer, never the request.
 */
async function gpuTypes(ctx: Ctx, probe: Probe): Promise<string[]> {
  const { regions } = ctx.state;
  if (ctx.clock.now() - regions.listedAt < KEEP_MS) return regions.gpuTypes;
  regions.listing ??= listTypes(ctx, probe);
  const answered = new AbortController();
  await Promise.race([regions.listing, ctx.clock.sleep(DRIVER_TIMEOUT_MS, answered.signal)]);
  answered.abort();
  return regions.gpuTypes;
}

async function listTypes(ctx: Ctx, probe: Probe): Promise<void> {
  const { regions } = ctx.state;
  try {
    const gpus = await probe();
    regions.gpuTypes = [...new Set(gpus.map((gpu) => gpu.type))].sort();
  } catch (error) {
    ctx.log.warn("the GPUs could not be listed", { error });
  }
  regions.listedAt = ctx.clock.now(); // after a failure too: a broken driver is not called on every request
  regions.listing = undefined;
}
