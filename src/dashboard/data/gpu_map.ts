/** The memory of a device as segments of a bar. Pure. */
import type { Gpu, GpuAvailability } from "../../resources/machines/gpu/schema.ts";
import { bytes, words } from "./format.ts";

export type Holder = { name: string; href: string | undefined };
/** Id of a job or deployment → its name. */
export type Names = ReadonlyMap<string, Holder>;

export type Segment = {
  key: string;
  label: string;
  /** Name, kind and size, for the tooltip and screen readers. */
  detail: string;
  href: string | undefined;
  /** Part of the device, 0 to 1. */
  share: number;
  /** A CSS colour. Holders of one kind have shades of one colour. */
  colour: string;
};

const TOKENS: Readonly<Record<string, string>> = {
  training_job: "--c1",
  deployment: "--c3",
  adapter: "--c6",
  detector: "--c2",
};
const KINDS: Readonly<Record<string, string>> = { training_job: "training", deployment: "serving" };

/** The first is the colour itself; the next ones stand out more from the text on them, never less. */
const SHADES = [100, 80, 62];
const shadeOf = (token: string, before: number): string => {
  const share = SHADES[before % SHADES.length] ?? 100;
  return share === 100 ? `var(${token})` : `color-mix(in oklab, var(${token}) ${share}%, var(--text))`;
};

/** One segment for each lease, and one for the memory that other programs use. */
export function segmentsOf(gpu: Gpu, names: Names): Segment[] {
  const total = Math.max(1, gpu.memory_total_bytes);
  const shades = new Map<string, number>(); // segments of each colour so far
  const leases = gpu.leases.map((lease, i) => {
    const token = lease.holder === null ? "--c5" : (TOKENS[lease.kind] ?? "--c4");
    const before = shades.get(token) ?? 0;
    shades.set(token, before + 1);
    const holder = nameOf(lease.holder, names);
    const kind = KINDS[lease.kind] ?? words(lease.kind).toLowerCase();
    const idle = lease.idle_since === null ? "" : ", idle: it makes room when another needs it";
    return {
      key: `${lease.holder ?? "other"} ${i}`,
      label: `${holder.name} · ${bytes(lease.bytes)}`,
      detail: `${holder.name}: ${kind}, ${bytes(lease.bytes)}${idle}`,
      href: holder.href,
      share: lease.bytes / total,
      colour: shadeOf(token, before),
    };
  });
  // On a machine without a card the used memory is that of the whole machine, which says nothing about models.
  const foreign = gpu.uuid === null ? 0 : Math.max(0, gpu.memory_used_bytes - gpu.memory_leased_bytes);
  if (foreign / total < 0.005) return leases;
  const other = { key: "foreign", label: `other programs · ${bytes(foreign)}`, href: undefined };
  return [
    ...leases,
    { ...other, detail: `Other programs use ${bytes(foreign)}`, share: foreign / total, colour: "var(--c5)" },
  ];
}

/** A replica is held as `dep_01…/1`. */
function nameOf(id: string | null, names: Names): Holder {
  if (id === null) return { name: "another workspace", href: undefined };
  const [owner = id, replica] = id.split("/");
  const holder = names.get(owner) ?? { name: owner, href: undefined };
  return replica === undefined || replica === "1" ? holder : { ...holder, name: `${holder.name} (replica ${replica})` };
}

export const freeOf = ({
  memory_total_bytes: total,
  memory_used_bytes: used,
  memory_leased_bytes: leased,
  uuid,
}: Gpu) => Math.max(0, total - (uuid === null ? leased : Math.max(used, leased)));

export type Waiting = { key: string; holder: Holder; bytes: number; reason: string; since: string };

/** Jobs and deployments that wait for memory, in the order in which they get it. Ids in reasons become names. */
export const waitingOf = ({ queue }: GpuAvailability, names: Names): Waiting[] =>
  queue.map(({ holder, bytes: wanted, reason, since }, i) => ({
    key: `${holder ?? "other"} ${i}`,
    holder: nameOf(holder, names),
    bytes: wanted,
    reason: named(reason, names),
    since,
  }));

/** `job_01…` → its name */
export const named = (text: string, names: Names): string =>
  text.replaceAll(/\b(?:job|dep)_[0-9a-z]{26}\b/g, (id) => names.get(id)?.name ?? id);
