/** The command lines and the output of Slurm's programs, since version 22.05. Pure. */
import { z } from "zod";
import { later } from "../../lib/schema.ts";
import { MIB } from "../../lib/units.ts";
import { gpuType } from "../machine/hardware.ts";
import { type Handle, type NodeInfo, type NodePlan, type Observation, TIME_LIMIT } from "./protocol.ts";

/** Names as Slurm has them: a comma lists alternatives of partitions and features. */
const Name = later(() =>
  z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.,@&|:-]{0,119}$/, "must be a name of Slurm, such as gpu or gpu,long"),
);

export const SlurmSettings = later(() =>
  z.strictObject({
    partition: Name.nullable().default(null).describe("Null: the default partition of the cluster"),
    account: Name.nullable().default(null),
    qos: Name.nullable().default(null),
    constraint: Name.nullable().default(null).describe("Features that a node must have"),
    time_limit_minutes: z
      .int()
      .min(1)
      .max(525_600)
      .nullable()
      .default(null)
      .describe("Time limit of one Slurm job. A longer run saves before it, and goes on in another Slurm job"),
    cpus: z
      .int()
      .min(1)
      .max(4_096)
      .nullable()
      .default(null)
      .describe("Processors of a job. A custom job may ask for less"),
    memory_mib: z
      .int()
      .min(1)
      .max(100_000_000)
      .nullable()
      .default(null)
      .describe("Memory of a job. A custom job asks Slurm for its own memory, up to this"),
    max_jobs: z.int().min(1).max(1_000).default(8).describe("Jobs that are submitted at the same time"),
  }),
);
export type SlurmSettings = z.infer<typeof SlurmSettings>;

export const slurmName = ({ job, attempt }: Handle) => `verk-${job}-${attempt}`;

/** Memory of the supervisor and its workers, beside that of a command. */
export const SUPERVISOR_MIB = 512;

const least = (...values: readonly (number | null | undefined)[]): number | null => {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length === 0 ? null : Math.min(...known);
};

/** The settings of one run: what it asks for itself, up to what the region gives to a job and the partition allows. */
export function settingsOf(
  settings: SlurmSettings,
  { custom, minutes }: Pick<NodePlan, "custom" | "minutes">,
  partitionMinutes: number | null,
): SlurmSettings {
  const wanted = custom?.resources;
  return {
    ...settings,
    cpus: least(settings.cpus, wanted?.cpus),
    memory_mib: least(settings.memory_mib, wanted && wanted.memory_mib + SUPERVISOR_MIB),
    time_limit_minutes: least(settings.time_limit_minutes, minutes, partitionMinutes),
  };
}

/** The most that one job of a region can have: memory of a command, and processors. Null if it is not known. */
export function mostOfJob(info: NodeInfo | null, slurm: SlurmSettings | null) {
  const memoryMib = least(info && Math.floor(info.memory_bytes / MIB), slurm?.memory_mib);
  return {
    cpus: least(info?.cpus, slurm?.cpus),
    memoryMib: memoryMib !== null && slurm ? Math.max(1, memoryMib - SUPERVISOR_MIB) : memoryMib,
  };
}

export const limitArgs = ({ partition }: SlurmSettings) => [
  ...["sinfo", "--noheader", "--format=%P|%l"],
  ...(partition === null ? [] : [`--partition=${partition}`]),
];

/** Minutes that the partition allows, the longest of several. A star marks the default one. Null: no limit. */
export function limitIn(text: string, { partition }: SlurmSettings): number | null {
  const rows = text.split("\n").map((line) => line.trim().split("|"));
  const limits = rows.flatMap(([name = "", limit]) =>
    limit === undefined || (partition === null && !name.endsWith("*")) ? [] : [minutesOf(limit)],
  );
  return limits.length === 0 || limits.includes(null) ? null : Math.max(...limits.map(Number));
}

/** `2-12:00:00`, `12:00:00` or `30:00`; null for `infinite`. At least one, because 0 is no limit for `sbatch`. */
function minutesOf(limit: string): number | null {
  const [, days = 0, hours = 0, minutes] = /^(?:(\d+)-)?(?:(\d+):)?(\d+):\d+$/.exec(limit) ?? [];
  return minutes === undefined ? null : Math.max(1, (Number(days) * 24 + Number(hours)) * 60 + Number(minutes));
}

/** Seconds before the time limit at which Slurm asks the run to save. A short limit leaves most of itself to the run. */
const saveBefore = (minutes: number | null) => (minutes === null ? 120 : Math.min(120, minutes * 15));

/** `gpus`: of all nodes together. `dir`: of the attempt or the replica. */
export type Batch = { name: string; nodes: number; gpus: number; gres: string | undefined; dir: string };

/** The script comes from standard input. A requeued job appends to its log. */
export function sbatchArgs(
  settings: SlurmSettings,
  { name, nodes, gpus, gres, dir }: Batch,
  requeue: "--requeue" | "--no-requeue" = "--requeue",
): string[] {
  const options: Record<string, string | number | null> = {
    "job-name": name,
    output: `${dir}/slurm.log`,
    "open-mode": "append",
    chdir: dir,
    nodes,
    ntasks: nodes,
    "ntasks-per-node": nodes > 1 ? 1 : null,
    signal: `B:HUP@${saveBefore(settings.time_limit_minutes)}`,
    export: "HOME,USER,PATH",
    partition: settings.partition,
    account: settings.account,
    qos: settings.qos,
    constraint: settings.constraint,
    time: settings.time_limit_minutes,
    "cpus-per-task": settings.cpus,
    mem: settings.memory_mib === null ? null : `${settings.memory_mib}M`,
    gres: gpus === 0 || gres === undefined ? null : `${gres}:${gpus / nodes}`,
  };
  const flags = Object.entries(options).filter(([, value]) => value !== null);
  return ["sbatch", "--parsable", requeue, ...flags.map(([name, value]) => `--${name}=${value}`)];
}

/**
 * Starts one process on each node after the first. The end of one must not end the others: rank 0 finds out why. `cpus`:
 * of the job, because `srun` does not take it over from `sbatch`.
 */
export const srunArgs = (nodes: number, cpus: number | undefined) => [
  ...["srun", "--quiet", `--nodes=${nodes - 1}`, `--ntasks=${nodes - 1}`, "--ntasks-per-node=1", "--relative=1"],
  ...["--kill-on-bad-exit=0", ...(cpus === undefined ? [] : [`--cpus-per-task=${cpus}`])],
];

/** Devices of one type on one node. `gres`: the name for a request, such as `gpu:h200`. */
export type Gres = { gres: string; type: string; count: number };

/** `gpu:h200:4(S:0-1),shard:8`, as `sinfo` prints it. */
export function gresOf(text: string): Gres[] {
  return text.split(/,(?![^(]*\))/).flatMap((each) => {
    const [name, ...rest] = each.replace(/\(.*\)$/, "").split(":");
    if (name !== "gpu") return [];
    const count = Number(rest.at(-1) ?? 1);
    const [kind] = Number.isInteger(count) ? rest.slice(0, -1) : rest;
    const amount = Number.isInteger(count) ? count : 1;
    if (kind === undefined) return [{ gres: "gpu", type: "GPU", count: amount }];
    return [{ gres: `gpu:${kind}`, type: gpuType(kind.replaceAll(/[_-]/g, " "), 0), count: amount }];
  });
}

export type SlurmNode = { name: string; gres: Gres[]; memoryMib: number; cpus: number; state: string };

export const SINFO = ["sinfo", "--noheader", "--Node", "--format=%N|%G|%m|%c|%T"];

/** A node of several partitions has several lines. */
export function nodesOf(text: string): SlurmNode[] {
  const nodes = text.split("\n").flatMap((line) => {
    const [name = "", gres = "", memory = "", cpus = "", state = ""] = line.trim().split("|");
    const number = (value: string) => Number.parseInt(value, 10);
    return state === "" ? [] : [{ name, gres: gresOf(gres), memoryMib: number(memory), cpus: number(cpus), state }];
  });
  return [...new Map(nodes.map((node) => [node.name, node])).values()];
}

/** Nodes that are down or drained take no jobs. A star marks a node that does not answer, `~` one that is powered off. */
export const isUsable = (state: string) =>
  /^(idle|mixed|allocated|completing|planned|reserved)/.test(state) && !state.endsWith("*");

/** The devices that a job of one node can get: of each type, the most that a node has. */
export function devicesOf(nodes: readonly SlurmNode[]): Gres[] {
  const all = nodes.flatMap(({ gres }) => gres);
  return [...Map.groupBy(all, ({ type }) => type).values()].map((same) =>
    same.reduce((best, each) => (each.count > best.count ? each : best)),
  );
}

/** How many devices of a type each node has, most first. Without GPUs, a node is one device. */
const countsOf = (nodes: readonly SlurmNode[], type: string) =>
  nodes
    .map(({ gres }) => (type === "cpu" ? 1 : (gres.find((each) => each.type === type)?.count ?? 0)))
    .toSorted((a, b) => b - a);

/** The fewest nodes that share the devices of a job equally. Undefined if the nodes do not have that many. */
export function nodesFor(nodes: readonly SlurmNode[], type: string, devices: number): number | undefined {
  const fits = (count: number, i: number) => devices % (i + 1) === 0 && count >= devices / (i + 1);
  const at = countsOf(nodes, type).findIndex(fits);
  return at < 0 ? undefined : at + 1;
}

/** The most devices of a type that one job can get. */
export const mostDevices = (nodes: readonly SlurmNode[], type: string) =>
  Math.max(...countsOf(nodes, type).map((count, i) => count * (i + 1)));

export type QueueRow = { id: string; name: string; state: string; reason: string };

/** With the jobs that ended a short time ago. */
export const squeueArgs = (names: readonly string[]) => [
  ...["squeue", "--noheader", "--me", "--states=all", `--name=${names.join(",")}`],
  "--format=%i|%j|%T|%r",
];

export const queueOf = (text: string): QueueRow[] =>
  text.split("\n").flatMap((line) => {
    const [id = "", name = "", state = "", reason = ""] = line.trim().split("|");
    return name === "" ? [] : [{ id, name, state, reason }];
  });

const WAITING = ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"];
const GOING_ON = ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"];
export const isWaiting = ({ state }: QueueRow) => WAITING.includes(state);
export const isActive = (row: QueueRow) => isWaiting(row) || GOING_ON.includes(row.state);

/** A job that was submitted twice by accident has two rows: the second ends at once. */
export const rowOf = (rows: readonly QueueRow[], jobName: string): QueueRow | undefined => {
  const jobRows = rows.filter(({ name }) => name === jobName);
  return jobRows.find(isActive) ?? jobRows[0];
};

/** Files of the attempt. `asked`: the server has asked the run to save or to stop. */
export type RunFiles = { planned: boolean; submitted: boolean; started: boolean; ended: boolean; asked: boolean };

/** Slurm knows whether a run lives. The files know how it ended. */
export function judgeRun(files: RunFiles, row: QueueRow | undefined): Pick<Observation, "state" | "lost"> {
  if (!files.planned) return { state: "missing", lost: null };
  if (files.ended) return { state: "ended", lost: null };
  if (row && isWaiting(row)) return { state: "ready", lost: null };
  // A shared file system may show the end of a completed job some seconds later.
  if (row && (isActive(row) || (row.state === "COMPLETED" && files.started))) return { state: "running", lost: null };
  if (!files.submitted && !files.started) return { state: "ready", lost: null };
  return { state: "lost", lost: files.asked ? { kind: "stopped", message: "" } : lossOf(row) };
}

const LOSSES: Readonly<Record<string, string>> = { OUT_OF_MEMORY: "memory", TIMEOUT: TIME_LIMIT };

export function lossOf(row: QueueRow | undefined): NonNullable<Observation["lost"]> {
  if (!row) return { kind: "crashed", message: "Slurm no longer knows the job, and it ended without a report" };
  const reason = ["", "None", "NonZeroExitCode"].includes(row.reason) ? "" : `, ${row.reason}`;
  const message = `Slurm ended its job ${row.id}: ${row.state}${reason}`;
  if (row.state.startsWith("CANCELLED")) return { kind: "config", message: `${message}. Someone cancelled it there` };
  return { kind: LOSSES[row.state] ?? "crashed", message };
}
