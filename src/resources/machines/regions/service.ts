import { and, count, eq, isNull, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { parseIp } from "../../../lib/net/ip.ts";
import { quotaOf } from "../../../platform/config/quotas.ts";
import { write } from "../../../platform/db/db.ts";
import { withUniqueName } from "../../../platform/db/errors.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { listGpus } from "../../../platform/machine/hardware.ts";
import { judgeAddress, judgeName, networkPolicy } from "../../../platform/network/address.ts";
import { scanHostKey } from "../../../platform/providers/host_key.ts";
import { offersOf } from "../../../platform/providers/node_provider.ts";
import { mostOfJob, SlurmSettings } from "../../../platform/providers/slurm_text.ts";
import { type Offer, Unreachable } from "../../../platform/providers/types.ts";
import * as sshKeys from "../../access/ssh_keys/service.ts";
import { checkNew, checkStored } from "./check.ts";
import { addressOf } from "./provider.ts";
import {
  type CheckRegion,
  type CreateRegion,
  isHere,
  present,
  providerName,
  type Region,
  type RegionCheck,
  rateOf,
} from "./schema.ts";
import { type RegionRow, regions } from "./table.ts";

type Probe = () => Promise<readonly { type: string }[]>;

const LOCAL = "local";
const KEEP_MS = 60_000;
const DRIVER_TIMEOUT_MS = 2_000;

const byId = preparedRow(
  regions,
  and(eq(regions.id, sql.placeholder("id")), eq(regions.workspaceId, sql.placeholder("workspaceId"))),
);

/** A region of the workspace. This machine has no row. */
export const find = (ctx: Pick<Ctx, "db">, workspaceId: string, id: string): RegionRow | undefined =>
  byId(ctx.db, { id, workspaceId });

/** The most that one job there can have. */
export function mostOfJobIn(ctx: Pick<Ctx, "db">, workspaceId: string, id: string) {
  const { info = null, slurm = null } = find(ctx, workspaceId, id) ?? {};
  return mostOfJob(info, slurm);
}

/** By id or by name. */
export const named = (ctx: Pick<Ctx, "db">, workspaceId: string, text: string): RegionRow | undefined =>
  find(ctx, workspaceId, text) ??
  ctx.db
    .select()
    .from(regions)
    .where(and(eq(regions.workspaceId, workspaceId), eq(regions.name, text)))
    .get();

/** This machine comes first, then the regions of the workspace. */
export async function list(ctx: Ctx, workspaceId: string, { limit, after }: PageQuery, probe: Probe = listGpus) {
  const head = after === undefined ? [await local(ctx, probe)] : [];
  const query = { limit: limit - head.length, after: after === LOCAL ? undefined : after };
  const regionPage = page(ctx.db, regions, eq(regions.workspaceId, workspaceId), query, present);
  return { ...regionPage, data: [...head, ...regionPage.data] };
}

export async function mustGet(ctx: Ctx, workspaceId: string, id: string, probe: Probe = listGpus): Promise<Region> {
  return id === LOCAL ? await local(ctx, probe) : present(mustFind(ctx, workspaceId, id));
}

/** The steps of a check, before a region is stored. Its address must be allowed. */
export async function checkNewRegion(ctx: Ctx, workspaceId: string, input: CheckRegion): Promise<RegionCheck> {
  const { kind, address = "", ssh_key_id: key = "" } = input;
  if (!isHere({ kind, address })) sshKeys.mustGet(ctx, workspaceId, key, "/ssh_key_id");
  else mustAllow(ctx, kind, address);
  return await checkNew(ctx, workspaceId, input);
}

export async function check(ctx: Ctx, workspaceId: string, id: string): Promise<RegionCheck> {
  if (id === LOCAL) throw new AppError("unsupported_state", "This machine is checked by the doctor", { param: "id" });
  const row = mustFind(ctx, workspaceId, id);
  if (row.kind !== "exec") return await checkStored(ctx, row);
  const message = `The machines of the cloud ${row.name} are made for each job, so there is none to check`;
  throw new AppError("unsupported_state", message, { param: "id" });
}

function mustFind(ctx: Ctx, workspaceId: string, id: string): RegionRow {
  const row = find(ctx, workspaceId, id);
  if (row) return row;
  throw new AppError("resource_not_found", `No region ${id.slice(0, 80)}: GET /v1/regions lists them`, { param: "id" });
}

/** With a host key in the request, no connection is opened. */
export async function create(ctx: Ctx, workspaceId: string, input: CreateRegion, once?: Once): Promise<Region> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as Region; // the answer that `keep` stored
  const { name, kind, address = "", port, user = "", ssh_key_id: sshKeyId = "", work_dir: workDir } = input;
  const mustHaveKey = () => {
    if (!isHere({ kind, address })) sshKeys.mustGet(ctx, workspaceId, sshKeyId, "/ssh_key_id");
  };
  mustHaveKey();
  mustHaveRoom(ctx, workspaceId);
  mustAllow(ctx, kind, address);
  const hostKey = isHere({ kind, address }) ? "" : (input.host_key ?? (await askHostKey(ctx, address, port)));
  const now = ctx.clock.now();
  const slurm = kind === "slurm" ? SlurmSettings.parse(input.slurm ?? {}) : null;
  const stored = { name, kind, address, port, user, sshKeyId, workDir, hostKey, slurm, rateMicros: rateOf(input) };
  const unseen = { info: null, seenAt: null, fault: "the node has not answered yet" };
  const answer = withUniqueName(`A region named ${JSON.stringify(name)} exists: choose another name`, () =>
    write(ctx.db, (tx) => {
      mustHaveKey(); // it may have been deleted meanwhile
      mustHaveRoom(ctx, workspaceId);
      const row = tx
        .insert(regions)
        .values({ id: newId("reg", now), workspaceId, ...stored, ...unseen, createdAt: now, updatedAt: now })
        .returning()
        .get();
      const presented = present(row);
      emit(tx, "region.created", { workspaceId, now }, presented);
      once?.keep(tx, presented);
      return presented;
    }),
  );
  ctx.wake("regions.observe");
  return answer;
}

function mustHaveRoom(ctx: Ctx, workspaceId: string) {
  const { most, setting } = quotaOf(ctx.config, workspaceId, "regions");
  if (most === 0) return;
  const counted = ctx.db.select({ n: count() }).from(regions).where(isAdded(workspaceId)).get();
  if ((counted?.n ?? 0) < most) return;
  const message = `This workspace has ${most} regions, the most that ${setting} allows: delete one, or ask the operator`;
  throw new AppError("quota_exceeded", message);
}

/** Not those of clouds, which the operator adds. */
const isAdded = (workspaceId: string) => and(eq(regions.workspaceId, workspaceId), ne(regions.kind, "exec"));

/** Without DNS: the addresses behind a name are judged at each connection. */
function mustAllow(ctx: Ctx, kind: CreateRegion["kind"], host: string) {
  if (isHere({ kind, address: host })) {
    if (ctx.config.training.slurm_work_dir !== "") return;
    const message =
      "address: is missing. The operator can make this machine the login node with training.slurm_work_dir";
    throw new AppError("schema", message, { param: "/address" });
  }
  const policy = networkPolicy(ctx.config.network);
  const literal = parseIp(host);
  const verdict = literal ? judgeAddress(literal, policy) : judgeName(host, policy);
  if (verdict.allowed) return;
  const message = `address: ${host} is not allowed: ${verdict.reason}. The operator can allow it with network.allow`;
  throw new AppError("url_not_allowed", message, { param: "/address" });
}

async function askHostKey(ctx: Ctx, host: string, port: number): Promise<string> {
  try {
    return await scanHostKey(await addressOf(ctx, host), port);
  } catch (cause) {
    if (!(cause instanceof Unreachable)) throw cause;
    const message = `address: the node at port ${port} of ${host} cannot be reached: ${cause.message}`;
    throw new AppError("fetch_failed", message, { param: "/address", cause });
  }
}

export function remove(ctx: Ctx, workspaceId: string, id: string, force = false): RegionRow {
  if (id === LOCAL) throw new AppError("unsupported_state", "This machine cannot be deleted", { param: "id" });
  const row = write<RegionRow>(ctx.db, (tx) => {
    const region = mustFind(ctx, workspaceId, id);
    if (!force) mustBeRemovable(ctx, region);
    tx.delete(regions).where(eq(regions.id, id)).run();
    emit(tx, "region.deleted", { workspaceId, now: ctx.clock.now() }, present(region));
    return region;
  });
  const { providers, askedAt } = ctx.state.regions;
  providers.delete(id);
  askedAt.delete(id);
  return row;
}

function mustBeRemovable(ctx: Ctx, { id, kind, name }: RegionRow) {
  if (kind === "exec") {
    const message = `The operator has set up the cloud ${name}: the operator can remove its file from clouds.files`;
    throw new AppError("unsupported_state", message, { param: "id" });
  }
  mustBeFree(ctx, id);
}

function mustBeFree(ctx: Ctx, id: string) {
  const run = ctx.db.$client
    .query<{ job: string }, [string]>(
      "SELECT job_id AS job FROM training_remote_runs WHERE region = ? AND state IN ('sending', 'running')",
    )
    .get(id);
  if (!run) return mustServeNothing(ctx, id);
  const message = `The job ${run.job} runs there: wait for its end, or cancel it with POST /v1/training_jobs/{id}/cancel`;
  throw new AppError("unsupported_state", message, { param: "id" });
}

function mustServeNothing(ctx: Ctx, id: string) {
  const deployment = ctx.db.$client
    .query<{ name: string }, [string]>(
      "SELECT name FROM deployments WHERE region = ? AND status NOT IN ('stopped', 'failed')",
    )
    .get(id);
  if (!deployment) return;
  const message = `The deployment ${deployment.name} runs there: stop it with POST /v1/deployments/{id}/stop`;
  throw new AppError("unsupported_state", message, { param: "id" });
}

/** A run or a deployment needs the machine of the region. */
export const isBusy = ({ db }: Pick<Ctx, "db">, id: string): boolean =>
  db.$client.query("SELECT 1 FROM training_remote_runs WHERE region = ? AND state <> 'closed' LIMIT 1").get(id) !==
    null ||
  db.$client
    .query(
      "SELECT 1 FROM deployments WHERE region = ? AND status IN ('provisioning', 'serving', 'unhealthy') AND parked = 0 LIMIT 1",
    )
    .get(id) !== null;

/** A region of a cloud, of any workspace: for the loop that makes its machines. */
export const ofCloud = ({ db }: Pick<Ctx, "db">, id: string): RegionRow | undefined =>
  db
    .select()
    .from(regions)
    .where(and(eq(regions.id, id), eq(regions.kind, "exec"), isNull(regions.fault)))
    .get();

/** Jobs that run there at the same time. A cluster has a queue of its own. */
export const mostJobs = (ctx: Pick<Ctx, "db">, workspaceId: string, id: string) =>
  find(ctx, workspaceId, id)?.slurm?.max_jobs ?? 1;

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db.select().from(regions).where(eq(regions.workspaceId, workspaceId)).all();
  for (const { id } of rows) remove(ctx, workspaceId, id, true);
}

/** Devices of the regions that answer, for placement. Without those of this machine. */
export const offersIn = (ctx: Pick<Ctx, "db">, workspaceId: string): Offer[] =>
  ctx.db
    .select()
    .from(regions)
    .where(eq(regions.workspaceId, workspaceId))
    .all()
    .flatMap((row) => {
      const { id, rateMicros, info, fault } = row;
      return info && fault === null ? offersOf(info, { region: id, kind: providerName(row), rateMicros }) : [];
    });

const local = async (ctx: Ctx, probe: Probe): Promise<Region> => ({
  object: "region",
  id: "local",
  name: "This machine",
  provider: "local",
  available: true, // the CPU takes work where there is no GPU
  reason: null,
  gpu_types: await gpuTypes(ctx, probe),
  rate_usd_per_hour: null,
  ssh: null,
  slurm: null,
  hardware: null,
  seen_at: null,
  created_at: null,
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
