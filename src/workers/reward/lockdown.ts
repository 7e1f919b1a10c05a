/**
 * Gives up all rights that untrusted code could misuse, after loading and before any code runs. A host may lack some
 * steps. The result lists the active layers, and `sandbox.require` decides if they suffice.
 */
import { readFileSync } from "node:fs";
import type { Layer } from "../../lib/rewards/contract.ts";
import { addressOf, NR, syscall } from "../../native/syscalls.ts";
import { filterSystemCalls } from "./seccomp.ts";

const RLIMIT = { cpu: 0, fsize: 1, data: 2, core: 4, nofile: 7 };
const PR_SET_DUMPABLE = 4;
const PR_SET_NO_NEW_PRIVS = 38;

const OPEN_FILES = 64;
const RESERVED_BYTES = 1280 << 20;
const CPU_SECONDS = 86_400; // a job may run for days; the parent's deadlines are the effective ones

type Step = readonly [layer: Layer, hold: () => boolean];

/** The order matters: the filter comes last, because it forbids the calls of the others. */
export const lockSteps = (memoryBytes: number): Step[] => [
  ["rlimits", () => limit(memoryBytes)],
  ["no_new_privs", () => syscall(NR.prctl, PR_SET_NO_NEW_PRIVS, 1) === 0],
  ["landlock", forbidFiles],
  ["seccomp", filterSystemCalls],
];

/** Returns the layers that are active from now on, permanently. */
export function lockDown(memoryBytes: number): Layer[] {
  syscall(NR.prctl, PR_SET_DUMPABLE, 0); // other processes of this user cannot read its memory
  return lockSteps(memoryBytes)
    .filter(([, hold]) => hold())
    .map(([layer]) => layer);
}

/**
 * A backstop that takes effect more than a gigabyte late: the runtime reserves memory in pieces of that size and
 * crashes without one. The parent monitors the real use.
 */
function limit(memoryBytes: number): boolean {
  const kib = /^VmData:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  const limits: [resource: number, value: number][] = [
    [RLIMIT.core, 0],
    [RLIMIT.fsize, 0],
    [RLIMIT.nofile, OPEN_FILES],
    [RLIMIT.cpu, CPU_SECONDS],
    [RLIMIT.data, Number(kib) * 1024 + memoryBytes + RESERVED_BYTES],
  ];
  return kib !== undefined && limits.every(([resource, value]) => setLimit(resource, value));
}

const THIS_PROCESS = 0;

function setLimit(resource: number, value: number): boolean {
  const both = new BigUint64Array([BigInt(value), BigInt(value)]); // soft and hard limit
  return syscall(NR.prlimit64, THIS_PROCESS, resource, addressOf(both), 0) === 0; // systemd's @resources has setrlimit
}

const CREATE_RULESET_VERSION = 1;
/** Number of file rights by version of the kernel's interface. All are denied. */
const FILE_RIGHTS = [0, 13, 14, 15, 15, 16];
const TCP_SINCE = 4;
const SCOPES_SINCE = 6;
const BOTH = 3n; // bind and connect; abstract sockets and signals

/** Forbids opening any path. It applies to this thread and those it starts; the filter covers the others. */
function forbidFiles(): boolean {
  const version = syscall(NR.landlock_create_ruleset, 0, 0, CREATE_RULESET_VERSION);
  if (version < 1) return false;
  const rights = FILE_RIGHTS[Math.min(version, FILE_RIGHTS.length - 1)] as number;
  const attributes = new BigUint64Array([
    (1n << BigInt(rights)) - 1n,
    version >= TCP_SINCE ? BOTH : 0n,
    version >= SCOPES_SINCE ? BOTH : 0n,
  ]);
  const size = version >= SCOPES_SINCE ? 24 : version >= TCP_SINCE ? 16 : 8;
  const ruleset = syscall(NR.landlock_create_ruleset, addressOf(attributes), size, 0);
  if (ruleset < 0) return false;
  const restricted = syscall(NR.landlock_restrict_self, ruleset, 0) === 0;
  syscall(NR.close, ruleset);
  return restricted;
}
