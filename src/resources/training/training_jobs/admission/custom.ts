/** Checks what the command of a custom job may use: its limits, its network and its variables. */
import { availableParallelism } from "node:os";
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { isReservedVariable, type JobResources, type Network } from "../../../../lib/training/resources.ts";
import { MIB } from "../../../../lib/units.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as regions from "../../../machines/regions/service.ts";
import { mustFit } from "../custom/files.ts";
import type { Hardware } from "../remote/placing.ts";
import { LOCAL } from "../state/queue.ts";
import type { JobRequest } from "./clone.ts";
import type { Faults } from "./faults.ts";

export type CustomJob = {
  resources: JobResources;
  network: Network;
  env: Record<string, string>;
  /** Memory of the devices that the job leases. */
  leaseBytes: number;
};

const ONLY_CUSTOM = ["secrets", "volumes", "resources", "network", "env"] as const;

/** Other jobs run no command. Reward code and data resolvers have no files, no variables and no network. */
export function refuseCustomFields(request: JobRequest, faults: Faults) {
  for (const field of ONLY_CUSTOM) {
    const value = request[field];
    const isUsed = Array.isArray(value) ? value.length > 0 : value !== undefined && Object.keys(value).length > 0;
    if (!isUsed) continue;
    const why = "is only for the method custom, because reward code and data resolvers cannot use it: leave it out";
    faults.refuse(`/${field}`, why);
  }
}

type Most = ReturnType<typeof regions.mostOfJobIn>;
/** `memoryMib`: of one job of a region, if it is known. */
type Device = Hardware & { memoryMib: number | null | undefined };
type Admission = { workspaceId: string; hardware: Hardware };

export function admitCustom(
  ctx: Ctx,
  request: JobRequest,
  { workspaceId, hardware }: Admission,
  faults: Faults,
): CustomJob {
  const there = hardware.region === LOCAL ? undefined : regions.mostOfJobIn(ctx, workspaceId, hardware.region);
  const memory = memoryFor(ctx, request, { ...hardware, memoryMib: there?.memoryMib }, faults);
  const disk_mib = diskFor(ctx, request, faults);
  const cpus = cpusFor(ctx, request, there, faults);
  const names = (request.volumes ?? []).map(({ name }) => name);
  // A volume that does not exist was reported before.
  if (faults.errors.length === 0) faults.attempt(() => mustFit(ctx, workspaceId, names, disk_mib * MIB));
  return {
    resources: { memory_mib: memory.mib, cpus, disk_mib, gpu_memory_mib: request.resources?.gpu_memory_mib ?? null },
    network: networkFor(ctx, request, faults),
    env: envFor(request, faults),
    leaseBytes: memory.leaseBytes,
  };
}

/** On the CPU the memory of the command is the lease. A GPU is leased as a whole, unless the request says how much. */
function memoryFor(ctx: Ctx, { resources = {} }: JobRequest, hardware: Device, faults: Faults) {
  const { type, count, capacityBytes, region, memoryMib } = hardware;
  const isCpu = type === "cpu";
  const onNode = memoryMib ? memoryMib * MIB : Number.MAX_SAFE_INTEGER;
  const here = isCpu ? capacityBytes * count : gpu.mainCapacity(ctx);
  const onMachine = region === LOCAL ? here : onNode;
  const allowed = ctx.config.custom_jobs.memory_mib * MIB || Number.MAX_SAFE_INTEGER;
  const most = Math.floor(Math.min(onMachine, allowed) / MIB);
  const mib = resources.memory_mib ?? Math.min(ctx.config.sessions.memory_mib, most);
  if (mib > most && capacityBytes > 0)
    faults.refuse(
      "/resources/memory_mib",
      allowed < onMachine
        ? `must be at most ${most} (custom_jobs.memory_mib)`
        : `must be at most ${most}, because a job there can lease ${formatBytes(onMachine)}`,
    );
  if (isCpu && resources.gpu_memory_mib)
    faults.refuse("/resources/gpu_memory_mib", "is only for jobs on GPUs: leave it out");
  const each = resources.gpu_memory_mib ? resources.gpu_memory_mib * MIB : capacityBytes;
  const isKnown = capacityBytes < Number.MAX_SAFE_INTEGER; // a region may not say how much its devices have
  if (!isCpu && each > capacityBytes)
    faults.refuse("/resources/gpu_memory_mib", `must be at most ${Math.floor(capacityBytes / MIB)} on a ${type}`);
  return { mib, leaseBytes: isCpu ? mib * MIB : isKnown ? each * count : 0 };
}

function diskFor(ctx: Ctx, { resources }: JobRequest, faults: Faults): number {
  const { disk_mib: most } = ctx.config.custom_jobs;
  const mib = resources?.disk_mib ?? Math.min(ctx.config.sessions.disk_mib, most);
  if (mib > most) faults.refuse("/resources/disk_mib", `must be at most ${most} (custom_jobs.disk_mib)`);
  return mib;
}

/** Without a wish and a limit, the jail takes all processors of the machine. */
function cpusFor(ctx: Ctx, { resources }: JobRequest, there: Most | undefined, faults: Faults): number | null {
  const allowed = ctx.config.custom_jobs.cpus;
  const onMachine = there ? (there.cpus ?? Number.MAX_SAFE_INTEGER) : availableParallelism();
  const cpus = resources?.cpus ?? null;
  const most = Math.min(onMachine, allowed || onMachine);
  const why = there ? "which a job of the region can have" : "which this machine has";
  if (cpus !== null && cpus > most)
    faults.refuse(
      "/resources/cpus",
      most === onMachine ? `must be at most ${most}, ${why}` : `must be at most ${most} (custom_jobs.cpus)`,
    );
  return cpus ?? (allowed === 0 ? null : most);
}

function networkFor(ctx: Ctx, { network = "none" }: JobRequest, faults: Faults): Network {
  if (network === "guarded" && ctx.config.custom_jobs.network !== "guarded")
    faults.refuse("/network", 'guarded is not allowed here: the operator can set custom_jobs.network = "guarded"');
  return network;
}

function envFor({ env = {}, secrets = [] }: JobRequest, faults: Faults): Record<string, string> {
  for (const name of Object.keys(env)) {
    if (isReservedVariable(name)) faults.refuse(`/env/${name}`, "is set by the job itself: take another name");
    if (secrets.includes(name)) faults.refuse(`/env/${name}`, "is a secret of the job too: keep one of them");
  }
  return env;
}
