/** Decides where a deployment runs: on this machine, or in the region that its request names. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { place } from "../../../../platform/providers/placement.ts";
import type { Offer } from "../../../../platform/providers/types.ts";
import { chooseHardware } from "../../../machines/gpu/hardware.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as regions from "../../../machines/regions/service.ts";
import * as billing from "../../../money/billing/service.ts";
import type { Hardware } from "../policy.ts";
import type { CreateDeployment } from "../schema.ts";
import { type DeploymentRow, LOCAL } from "../table.ts";

/** `devices`: all of the place. */
export type PlacementChoice = { provider: string; region: string; type: string; count: number; devices: Hardware };

/** Called before anything is written: the driver may take seconds to answer. */
export async function hardwareFor(ctx: Ctx, workspaceId: string, input: CreateDeployment): Promise<PlacementChoice> {
  const { region = LOCAL, provider } = input;
  if (region === LOCAL && (provider ?? LOCAL) === LOCAL) return await here(ctx, input);
  const count = input.gpu?.gpu_count ?? 1;
  const row = input.region === undefined ? undefined : regions.named(ctx, workspaceId, input.region);
  if (row && row.fault !== null) refuse("region", `the region ${row.name} cannot be used now: ${row.fault}`);
  const offers = regions.offersIn(ctx, workspaceId);
  if (row === undefined && offers.length === 0)
    refuse(
      input.region === undefined ? "provider" : "region",
      "no region can be used: leave it out, or add one with POST /v1/regions",
    );
  const need = { gpuType: input.gpu?.gpu_type, gpuCount: count, memoryBytes: 0 };
  const placement = place(offers, need, { region: row?.id ?? input.region, provider });
  if (!placement.offer) return refuse(placement.param.slice(1), placement.message);
  const { offer } = placement;
  return { provider: offer.provider, region: offer.region, type: offer.gpuType, count, devices: devicesOf([offer]) };
}

function refuse(field: string, message: string): never {
  throw new AppError("schema", `${field}: ${message}`, { param: `/${field}` });
}

async function here(ctx: Ctx, { gpu: wanted }: CreateDeployment): Promise<PlacementChoice> {
  const { type, count, devices, problem } = await chooseHardware(ctx, wanted);
  if (problem)
    throw new AppError("schema", `${problem.param.slice(1).replace("/", ".")}: ${problem.message}`, {
      param: problem.param,
    });
  return { provider: LOCAL, region: LOCAL, type, count, devices };
}

/** An unknown amount of memory is no obstacle. */
const devicesOf = (offers: readonly Offer[]): Hardware =>
  offers.flatMap(({ gpuType: type, gpuCount, memoryBytes }) =>
    Array.from({ length: gpuCount }, () => ({ type, capacityBytes: memoryBytes || Number.MAX_SAFE_INTEGER })),
  );

/** The devices of the place where the deployment is. */
export async function devicesFor(ctx: Ctx, { workspaceId, region }: DeploymentRow): Promise<Hardware> {
  if (region === LOCAL) return await gpu.devices(ctx);
  return devicesOf(regions.offersIn(ctx, workspaceId).filter((offer) => offer.region === region));
}

type Priced = Pick<DeploymentRow, "workspaceId" | "provider" | "region" | "gpuType" | "gpuCount">;

/** Micro-dollars for an hour of one replica; null: free. */
export function rateOf(ctx: Ctx, { workspaceId, provider, region, gpuType, gpuCount }: Priced): number | null {
  const rate =
    region === LOCAL
      ? billing.rateFor(ctx, provider, gpuType)
      : (regions.find(ctx, workspaceId, region)?.rateMicros ?? null);
  return rate === null ? null : rate * gpuCount;
}
