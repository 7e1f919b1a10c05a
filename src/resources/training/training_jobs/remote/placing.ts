/** Decides where a job runs: where the request says, or else where the policy of placement puts it. */
import type { Ctx } from "../../../../context.ts";
import { place } from "../../../../platform/providers/placement.ts";
import type { Need, Offer } from "../../../../platform/providers/types.ts";
import { chooseHardware } from "../../../machines/gpu/hardware.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as regions from "../../../machines/regions/service.ts";
import * as billing from "../../../money/billing/service.ts";
import { LOCAL } from "../state/queue.ts";

/** The parts of a request that decide where the job runs. */
type Placeable = {
  provider?: string | undefined;
  region?: string | undefined;
  gpu?: { gpu_type?: string | undefined; gpu_count?: number | undefined } | undefined;
  reward_functions?: readonly { id: string }[] | undefined;
  resume_from?: string | null | undefined;
};
/** Collects what is wrong with the request. */
type Faults = { refuse: (param: string, message: string) => void };

export type Hardware = {
  provider: string;
  region: string;
  /** The reason for the region, in one sentence. */
  placement: string;
  type: string;
  count: number;
  capacityBytes: number;
  rateMicros: number | null;
};

export async function hardwareFor(
  ctx: Ctx,
  workspaceId: string,
  request: Placeable,
  faults: Faults,
): Promise<Hardware> {
  const { provider } = request;
  const row = request.region === undefined ? undefined : regions.named(ctx, workspaceId, request.region);
  const region = row?.id ?? request.region;
  const bound = onlyHere(request);
  const isElsewhere = (provider ?? LOCAL) !== LOCAL || (region ?? LOCAL) !== LOCAL;
  if (bound !== undefined && isElsewhere) {
    faults.refuse(provider === undefined ? "/region" : "/provider", `${bound} only on local: leave it out`);
    return await here(ctx, request, faults, "The request can run only on this machine");
  }
  if (row && row.fault !== null) {
    faults.refuse("/region", `the region ${region} cannot be used now: ${row.fault}`);
    return await here(ctx, request, faults, "");
  }
  const elsewhere = bound === undefined ? regions.offersIn(ctx, workspaceId) : [];
  // Without other regions, the errors are those of this machine, which name its devices.
  if (!isElsewhere && elsewhere.length === 0)
    return await here(
      ctx,
      request,
      faults,
      bound === undefined ? "local is the only region" : `${capital(bound)} only on local`,
    );
  const placement = place([...(await offersHere(ctx)), ...elsewhere], needOf(request), { region, provider });
  if (!placement.offer) {
    faults.refuse(placement.param, placement.message);
    return await here(ctx, request, faults, "");
  }
  const { offer, reason } = placement;
  if (offer.provider === LOCAL)
    return await here(ctx, { ...request, gpu: { ...countOf(request), gpu_type: offer.gpuType } }, faults, reason);
  return {
    provider: offer.provider,
    region: offer.region,
    placement: reason,
    type: offer.gpuType,
    count: needOf(request).gpuCount,
    capacityBytes: offer.memoryBytes || Number.MAX_SAFE_INTEGER,
    rateMicros: offer.rateMicros === null ? null : offer.rateMicros * needOf(request).gpuCount,
  };
}

/** Why the job needs this server while it runs. */
function onlyHere({ reward_functions: rewards, resume_from: from }: Placeable): string | undefined {
  if (from) return "jobs with resume_from run";
  return rewards?.some(({ id }) => id.startsWith("evl_")) ? "jobs with evaluators run" : undefined;
}

const countOf = ({ gpu: wanted }: Placeable) => ({ gpu_count: wanted?.gpu_count ?? 1 });

/** The memory follows from the rows, which are not known yet. */
const needOf = (request: Placeable): Need => ({
  gpuType: request.gpu?.gpu_type,
  gpuCount: countOf(request).gpu_count,
  memoryBytes: 0,
});

/** Without `gpu_type` in the request, the machine's first kind of device is used. */
async function here(ctx: Ctx, request: Placeable, faults: Faults, placement: string): Promise<Hardware> {
  const { type, count, devices, problem } = await chooseHardware(ctx, request.gpu);
  if (problem) faults.refuse(problem.param, problem.message);
  const capacities = devices.filter((device) => device.type === type).map((device) => device.capacityBytes);
  const rate = billing.rateFor(ctx, LOCAL, type);
  const capacityBytes = Math.max(0, ...capacities);
  return {
    provider: LOCAL,
    region: LOCAL,
    placement,
    type,
    count,
    capacityBytes,
    rateMicros: rate === null ? null : rate * count,
  };
}

async function offersHere(ctx: Ctx): Promise<Offer[]> {
  const devices = await gpu.devices(ctx);
  return [...new Set(devices.map(({ type }) => type))].map((gpuType) => {
    const same = devices.filter(({ type }) => type === gpuType);
    const memoryBytes = Math.max(0, ...same.map(({ capacityBytes }) => capacityBytes));
    const rateMicros = billing.rateFor(ctx, LOCAL, gpuType);
    return { region: LOCAL, provider: LOCAL, gpuType, gpuCount: same.length, memoryBytes, rateMicros };
  });
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
