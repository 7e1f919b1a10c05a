/** `verk node slurm VERB`: runs on the login node. It submits supervisors to Slurm and asks for their jobs. */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { UsageError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { VERSION } from "../../lib/version.ts";
import { ambientEnv } from "../../platform/config/config.ts";
import { acquireDataLock, type DataLock, EXIT_DATA_DIR_HELD } from "../../platform/db/data_lock.ts";
import { quote, TRY_LATER } from "../../platform/providers/link.ts";
import {
  attemptDir,
  Handle,
  jobDir,
  MOST_GPUS,
  type NodeInfo,
  NodePlan,
  type Observation,
} from "../../platform/providers/protocol.ts";
import {
  devicesOf,
  isActive,
  isUsable,
  isWaiting,
  judgeRun,
  limitArgs,
  limitIn,
  mostDevices,
  nodesFor,
  nodesOf,
  type QueueRow,
  queueOf,
  rowOf,
  SINFO,
  type SlurmNode,
  SlurmSettings,
  sbatchArgs,
  settingsOf,
  slurmName,
  squeueArgs,
} from "../../platform/providers/slurm_text.ts";
import { self } from "../../platform/workers/self.ts";
import { removeJob } from "./files.ts";
import { nodeInfo } from "./info.ts";
import { cancelRun, runFacts } from "./runs.ts";

export async function slurmVerb(root: string, verb = "", settingsText = "", ...args: string[]): Promise<unknown> {
  const settings = SlurmSettings.parse(JSON.parse(settingsText));
  const [first = "", how] = args;
  switch (verb) {
    case "info":
      return await clusterInfo(root, settings);
    case "start":
      return await submit(root, settings, Handle.parse(JSON.parse(first)));
    case "observe":
      return await observe(root, z.array(Handle).parse(JSON.parse(first)));
    case "cancel":
      return await cancel(root, Handle.parse(JSON.parse(first)), how === "save" ? "save" : "stop");
    case "remove":
      return await remove(root, first);
    default:
      throw new Error(`no verb ${verb}`);
  }
}

/** The programs ask the controller: while it is away, nothing is known, and the caller tries again. */
const AWAY = /unable to contact slurm controller|connection refused|timed out|zero bytes|standby mode|munge/i;

export async function runSlurm(argv: readonly string[], stdin = ""): Promise<string> {
  const [program = ""] = argv;
  const env = ambientEnv();
  if (Bun.which(program, { PATH: env["PATH"] ?? "" }) === null)
    throw new Error(`the login node has no ${program} on the PATH of this user`);
  const child = Bun.spawn([...argv], {
    stdin: new Blob([stdin]),
    stdout: "pipe",
    stderr: "pipe",
    env: { ...env, LC_ALL: "C" },
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) === 0) return out;
  const message = err.trim().split("\n").at(-1) ?? `${program} ended with code ${child.exitCode}`;
  throw new UsageError(message, AWAY.test(err) ? TRY_LATER : 1);
}

async function usableNodes({ partition }: SlurmSettings): Promise<SlurmNode[]> {
  const text = await runSlurm([...SINFO, ...(partition === null ? [] : [`--partition=${partition}`])]);
  const nodes = nodesOf(text);
  const usable = nodes.filter(({ state }) => isUsable(state));
  if (usable.length > 0) return usable;
  const where = partition === null ? "the cluster" : `the partition ${partition}`;
  const isUnknown = nodes.some(({ state }) => state.startsWith("unknown")); // the controller has just started
  throw new UsageError(`no node of ${where} can be used now`, isUnknown ? TRY_LATER : 1);
}

async function clusterInfo(root: string, settings: SlurmSettings): Promise<NodeInfo> {
  const { load: _ofLoginNode, ...here } = await nodeInfo(root);
  const nodes = await usableNodes(settings);
  const devices = devicesOf(nodes).slice(0, MOST_GPUS);
  const types = devices.length === 0 ? ["cpu"] : devices.map(({ type }) => type);
  return {
    ...here,
    cpus: Math.max(...nodes.map(({ cpus }) => cpus)),
    memory_bytes: Math.max(...nodes.map(({ memoryMib }) => memoryMib)) * MIB,
    gpus: devices.map(({ type }) => ({ type, memory_bytes: 0 })), // `most` has their numbers
    most: Object.fromEntries(types.map((type) => [type, mostDevices(nodes, type)])),
  };
}

const queue = async (handles: readonly Handle[]): Promise<QueueRow[]> =>
  handles.length === 0 ? [] : queueOf(await runSlurm(squeueArgs(handles.map(slurmName))));

async function observe(root: string, handles: readonly Handle[]): Promise<Observation[]> {
  const rows = await queue(handles);
  return handles.map((handle) => observeOne(root, handle, rows));
}

function observeOne(root: string, handle: Handle, rows: readonly QueueRow[]): Observation {
  const dir = join(root, attemptDir(handle));
  const has = (name: string) => existsSync(join(dir, name));
  const { bytes, heartbeat_at } = runFacts(dir);
  const files = {
    planned: has("plan.json"),
    submitted: has("submitted"),
    started: has("started"),
    asked: has("stop") || has("save"),
    ended: has("ended"),
  };
  return { bytes, heartbeat_at, ...judgeRun(files, rowOf(rows, slurmName(handle))) };
}

/**
 * Slurm's own list by the name of the job decides, because this process may be killed between `sbatch` and the file.
 * The lock keeps two submissions apart: one that a lost connection left behind may still wait for `sbatch`, and the
 * caller tries again when it is over. The supervisor runs an attempt once in any case.
 */
async function submit(root: string, settings: SlurmSettings, handle: Handle): Promise<null> {
  const dir = resolve(root, attemptDir(handle));
  const lock = lockSubmission(dir);
  try {
    const rows = await queue([handle]);
    const isKnown =
      rowOf(rows, slurmName(handle)) !== undefined ||
      ["submitted", "started", "stop"].some((name) => existsSync(join(dir, name)));
    if (isKnown) return null;
    const plan = NodePlan.parse(await Bun.file(join(dir, "plan.json")).json());
    const { gpus, gpu_type, task, minutes } = plan;
    const partitionMinutes = minutes === undefined ? null : limitIn(await runSlurm(limitArgs(settings)), settings);
    const { nodes, gres } = await layoutFor(settings, { gpus, gpu_type, ranks: Number(task["ranks"] ?? 1) });
    const argv = self("node", "run", resolve(root), JSON.stringify(handle)).map(quote).join(" ");
    const script = `#!/bin/sh\nexec ${argv}\n`;
    const own = settingsOf(settings, plan, partitionMinutes);
    const id = await runSlurm(sbatchArgs(own, { name: slurmName(handle), nodes, gpus, gres, dir }), script);
    writeFileSync(join(dir, "submitted"), id, { mode: 0o600 });
    return null;
  } finally {
    lock.release();
  }
}

function lockSubmission(dir: string): DataLock {
  try {
    return acquireDataLock(join(dir, "submission"), { version: VERSION });
  } catch (error) {
    const isBusy = error instanceof UsageError && error.exitCode === EXIT_DATA_DIR_HELD;
    throw isBusy ? new UsageError("an earlier submission of this attempt is still under way", TRY_LATER) : error;
  }
}

type Layout = Pick<NodePlan, "gpus" | "gpu_type"> & { ranks: number };

/** A job of one processor needs no answer of the nodes: it may wait in the queue until one can be used. */
export async function layoutFor(settings: SlurmSettings, { gpus, gpu_type: type, ranks }: Layout) {
  if (gpus === 0 && ranks === 1) return { nodes: 1, gres: undefined };
  const usable = await usableNodes(settings);
  const gres = devicesOf(usable).find((each) => each.type === type)?.gres;
  if (gpus > 0 && gres === undefined) throw new Error(`no node that can be used has a GPU of type ${type}`);
  const nodes = nodesFor(usable, type, ranks);
  if (nodes === undefined)
    throw new Error(`the nodes that can be used cannot share ${ranks} devices of type ${type} equally`);
  return { nodes, gres: gpus === 0 ? undefined : gres };
}

/** A job that waits in the queue of Slurm is cancelled there. A run that has begun reads the request itself. */
async function cancel(root: string, handle: Handle, how: "save" | "stop"): Promise<null> {
  cancelRun(root, handle, how);
  const row = rowOf(await queue([handle]), slurmName(handle));
  if (row && isWaiting(row)) await runSlurm(["scancel", row.id]);
  return null;
}

async function remove(root: string, job: string): Promise<null> {
  const dir = join(root, jobDir(Handle.parse({ job, attempt: 1 }).job));
  if (!existsSync(dir)) return null;
  const open = readdirSync(dir).filter((name) => /^\d+$/.test(name) && !existsSync(join(dir, name, "ended")));
  const rows = await queue(open.map((attempt) => ({ job, attempt: Number(attempt) })));
  if (rows.some(isActive)) throw new Error(`the job ${job} still runs`);
  return await removeJob(root, job);
}
