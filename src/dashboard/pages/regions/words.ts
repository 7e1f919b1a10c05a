import type { GpuAvailability } from "../../../resources/machines/gpu/schema.ts";
import type { Region } from "../../../resources/machines/regions/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { bytes, money, NONE } from "../../data/format.ts";

const LOCAL = "local";

const KINDS: Readonly<Record<string, string>> = { local: "This machine", ssh: "SSH", slurm: "Slurm" };
export const kindOf = ({ provider }: Region) => KINDS[provider] ?? provider;

/** `2 × H200, 141 GiB each`. While the devices are not known: the types alone. */
export function devicesOf({ id, gpu_types: types }: Region, availability: GpuAvailability | undefined): string[] {
  const here = availability?.data.map(({ type, total }) => ({ type, total, memory_bytes: 0 })) ?? [];
  const there = availability?.regions.filter(({ region }) => region === id) ?? [];
  const devices = id === LOCAL ? here : there;
  if (devices.length === 0) return types.length === 0 ? [NONE] : types;
  return devices.map(({ type, total, memory_bytes: each }) =>
    each > 0 ? `${total} × ${type}, ${bytes(each)} each` : `${total} × ${type}`,
  );
}

export const priceOf = ({ id, rate_usd_per_hour: rate }: Region) => {
  if (rate !== null) return `${money(rate)} per hour`;
  return id === LOCAL ? "as in the price list" : "none";
};

/** `user@host:22`. A cluster whose login node is this machine has no address. */
export const addressOf = ({ ssh }: Region) => (ssh ? `${ssh.user}@${ssh.address}:${ssh.port}` : undefined);

export const isLocal = ({ id }: Pick<Region, "id">) => id === LOCAL;

/** Jobs and deployments that have not ended. */
export type Work = {
  jobs: readonly Pick<TrainingJob, "id" | "output_name" | "status" | "region">[];
  deployments: readonly Pick<Deployment, "id" | "name" | "status" | "parked" | "region">[];
};

export const workOf = (id: string, { jobs, deployments }: Work): Work => ({
  jobs: jobs.filter(({ region }) => region === id),
  deployments: deployments.filter(({ region }) => region === id),
});
