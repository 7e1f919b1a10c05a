/**
 * The share of the processor that jails get. All jails of this server together have a tenth of the weight of the server,
 * however many processes and sessions they start: nice values do not bound them, because the kernel gives each session
 * the same share. When nothing else wants the processor, jails have all of it. Each jail has a control group of its own,
 * so they share equally.
 *
 * It needs control groups that this process may change: as root, or in a service with `Delegate=cpu`. Elsewhere jails
 * compete with the server as other programs do.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";

const ROOT = "/sys/fs/cgroup";
const NAME = /^verk-(\d+)$/;
/** Everything else has 1,024 shares, or a weight of 100. */
const SHARES = "102";
const WEIGHT = "10";

export type Share = {
  /** A process that writes 0 into it joins. */
  procs: string;
  /** Call it when the jail has ended. */
  close: () => void;
};

/** The group of this process's jails; null: there is none on this machine. */
let group: string | null | undefined;
let count = 0;
/** Groups of ended jails that could not be removed: the kernel had not let go of their last process. */
const leftOver = new Set<string>();

export function openShare(): Share | undefined {
  group ??= makeGroup();
  if (group === null) return undefined;
  for (const path of leftOver) remove(path);
  const path = `${group}/${++count}`;
  try {
    mkdirSync(path);
  } catch {
    return undefined;
  }
  return { procs: `${path}/cgroup.procs`, close: () => remove(path) };
}

function remove(path: string) {
  if (removed(path)) leftOver.delete(path);
  else leftOver.add(path);
}

function makeGroup(): string | null {
  try {
    return firstVersion() ?? secondVersion() ?? null;
  } catch {
    return null; // another program owns them
  }
}

function firstVersion(): string | undefined {
  const [, controllers, path] = /^\d+:((?:\w+,)*cpu(?:,\w+)*):(.*)$/m.exec(ownGroups()) ?? [];
  if (controllers === undefined || path === undefined) return undefined;
  const group = makeIn(`${ROOT}/${controllers}${path === "/" ? "" : path}`);
  writeFileSync(`${group}/cpu.shares`, SHARES);
  return group;
}

function secondVersion(): string | undefined {
  const path = /^0::(.*)$/m.exec(ownGroups())?.[1];
  if (path === undefined || !existsSync(`${ROOT}/cgroup.controllers`)) return undefined;
  const parent = `${ROOT}${path === "/" ? "" : path}`;
  if (path !== "/") {
    // Only groups without processes may have groups below them that share the processor. So all of them move, if they are ours.
    const pids = readFileSync(`${parent}/cgroup.procs`, "utf8").trim().split("\n");
    if (!pids.every(isOurs)) return undefined;
    mkdirSync(`${parent}/server`, { recursive: true });
    for (const pid of pids) if (existsSync(`/proc/${pid}`)) writeFileSync(`${parent}/server/cgroup.procs`, pid);
  }
  writeFileSync(`${parent}/cgroup.subtree_control`, "+cpu");
  const group = makeIn(parent);
  writeFileSync(`${group}/cpu.weight`, WEIGHT);
  writeFileSync(`${group}/cgroup.subtree_control`, "+cpu");
  return group;
}

/** True for this process and all that it has started, and for one that has ended meanwhile. */
function isOurs(pid: string): boolean {
  for (let at = pid; Number(at) > 1; ) {
    if (Number(at) === process.pid || !existsSync(`/proc/${at}/status`)) return true;
    at = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${at}/status`, "utf8"))?.[1] ?? "";
  }
  return false;
}

const ownGroups = () => readFileSync("/proc/self/cgroup", "utf8");

function makeIn(parent: string): string {
  for (const name of readdirSync(parent)) {
    const pid = NAME.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) removeOld(`${parent}/${name}`);
  }
  const group = `${parent}/verk-${process.pid}`;
  mkdirSync(group, { recursive: true });
  return group;
}

/** A server that was killed has left it. */
function removeOld(path: string) {
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) removed(`${path}/${entry.name}`);
  removed(path);
}

function removed(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return false; // a process of it has not ended yet: the next server removes it
  }
}
