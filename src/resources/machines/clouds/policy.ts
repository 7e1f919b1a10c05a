/** Pure decisions about machines of clouds: when one starts, stays and ends, and which names have no explanation. */
import { MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import type { MachineRow } from "./table.ts";

/** Work that asks for a machine asks again at least this often. */
export const REQUEST_MS = 10 * SECOND_MS;
/** How often the clouds are asked which machines exist. */
export const SWEEP_MS = 5 * MINUTE_MS;
/** Lists without the name of a machine after which it counts as gone: a cloud may show a new machine late. */
export const MISSED_LISTS = 2;

export type StartFacts = {
  isRequested: boolean;
  /** The machine of the region that has not ended. */
  machine: Pick<MachineRow, "status"> | undefined;
  /** Machines of the cloud that have not ended, of all workspaces. */
  count: number;
  most: number;
  canPay: boolean;
  /** Time of the next try after a failed start; by the same clock as `now`. */
  notBefore: number;
  now: number;
};

/** Undefined: start one now. Otherwise the reason why work waits. */
export function reasonToWait({ machine, count, most, canPay, notBefore, now }: Omit<StartFacts, "isRequested">) {
  if (machine?.status === "starting") return "a machine is being made";
  if (machine?.status === "ending") return "the last machine is being ended";
  if (!canPay) return "the workspace is out of credit";
  if (count >= most) return `${count} machines exist, the most that the operator allows (max_machines)`;
  if (now < notBefore) return "the last start failed, and the next one comes later";
  return undefined;
}

export const shouldStart = (facts: StartFacts): boolean =>
  facts.isRequested && facts.machine === undefined && reasonToWait(facts) === undefined;

export type KeepFacts = {
  row: Pick<MachineRow, "status" | "idleSince">;
  /** A run or a deployment uses it. */
  isBusy: boolean;
  /** Work waits for it. */
  isRequested: boolean;
  canPay: boolean;
  /** The operator still has the cloud, and the workspace its region. */
  isAllowed: boolean;
  /** This process calls `up`, or the machine is ready. */
  isStarting: boolean;
  /** Lists in a row that did not have its name. */
  missed: number;
  idleMs: number;
  now: number;
};

export type Verdict = { act: "keep"; idleSince: number | null } | { act: "end"; reason: string };

/** Decides whether a machine that is starting or ready stays. */
export function judge(facts: KeepFacts): Verdict {
  const { row, isBusy, isRequested, canPay, isAllowed, isStarting, missed, idleMs, now } = facts;
  const end = (reason: string): Verdict => ({ act: "end", reason });
  if (row.status === "starting")
    return isStarting ? { act: "keep", idleSince: null } : end("the server ended while the machine was being made");
  if (missed >= MISSED_LISTS) return end("the cloud no longer lists the machine");
  if (isBusy) return { act: "keep", idleSince: null };
  if (!isAllowed) return end("its region is gone");
  if (isRequested && canPay) return { act: "keep", idleSince: null };
  // A clock that was set back must not keep a machine for longer.
  const since = Math.min(row.idleSince ?? now, now);
  if (!canPay) return end("the workspace is out of credit");
  return now - since >= idleMs ? end("no work for idle_minutes") : { act: "keep", idleSince: since };
}

const FIRST_PAUSE_MS = 10 * SECOND_MS;
const LONGEST_PAUSE_MS = 10 * MINUTE_MS;

/** The pause after failure number `failures` (from 1) of `up` or `down`. */
export const pauseMs = (failures: number): number =>
  Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1), LONGEST_PAUSE_MS);

/** A time further ahead than the longest pause was set by a clock that was wrong. */
export const isDue = (at: number | null, now: number): boolean =>
  at === null || at <= now || at - now > LONGEST_PAUSE_MS;

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const LETTERS = 12;

/** The name of a new machine. `random`: at least 12 bytes. */
export const nameFor = (server: string, cloud: string, random: Uint8Array): string =>
  `verk-${server}-${cloud}-${[...random.subarray(0, LETTERS)].map((byte) => ALPHABET[byte % 32]).join("")}`;

/** Names of machines that this server made in this cloud. All other names are ignored. */
export function ownNames(names: readonly string[], server: string, cloud: string): string[] {
  const shape = new RegExp(`^verk-${server}-${cloud}-[${ALPHABET}]{${LETTERS}}$`);
  return [...new Set(names.filter((name) => shape.test(name)))];
}

/** Own machines that no live lease explains. */
export const orphansOf = (own: readonly string[], leased: ReadonlySet<string>): string[] =>
  own.filter((name) => !leased.has(name));
