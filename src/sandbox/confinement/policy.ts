/**
 * Which files each kind of worker may reach, and whether it may dial. Pure: the facts about the machine and about one
 * worker are given. A kind that is not in the table is not confined: it parses nothing of strangers or confines itself.
 */
import type { Grants } from "../../platform/workers/types.ts";

export const ACCESSES = ["reads", "runs", "writes", "updates", "drives"] as const;
export type Rule = readonly [access: (typeof ACCESSES)[number], path: string];

export type Policy = {
  /** It reaches the network of the host. All others listen on a socket in their folder and dial nothing. */
  dials: boolean;
  /** Native libraries that must be extracted before it starts: it cannot write them. */
  groups: (gpu: boolean) => readonly string[];
  /** Beside what every worker reads. */
  reads: readonly string[];
};

const llama = (gpu: boolean) => ["cxx", "shim", gpu ? "llama-cuda" : "llama"];

/** Names are resolved, and certificates of servers checked, with these. */
const NETWORK_FILES = [
  "/etc/resolv.conf",
  "/run/systemd/resolve",
  "/etc/hosts",
  "/etc/host.conf",
  "/etc/gai.conf",
  "/etc/services",
  "/etc/protocols",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/pki/tls/certs",
  "/etc/pki/ca-trust",
];

export const POLICIES = {
  connector: { dials: true, groups: () => [], reads: NETWORK_FILES },
  detector: { dials: false, groups: () => ["cxx", "sharp", "onnx"], reads: [] },
  inspector: { dials: false, groups: () => [], reads: [] },
  serving: { dials: false, groups: llama, reads: [] },
  trainer: { dials: false, groups: llama, reads: [] },
} as const satisfies Record<string, Policy>;
export type ConfinedKind = keyof typeof POLICIES;

export const policyOf = (kind: string): Policy | undefined =>
  Object.hasOwn(POLICIES, kind) ? POLICIES[kind as ConfinedKind] : undefined;

/** Programs and libraries of the system, which anybody may read; what the runtime asks about the machine. */
const SYSTEM_FILES = [
  "/usr",
  "/lib",
  "/lib64",
  "/nix/store",
  "/etc/ld.so.cache",
  "/etc/ld.so.preload",
  "/etc/localtime",
  "/etc/nsswitch.conf",
  "/etc/passwd",
  "/proc", // what concerns other processes is refused with the right to trace them
  "/sys/devices/system",
  "/sys/fs/cgroup",
  "/sys/kernel/mm",
  "/dev/zero",
  "/dev/random",
  "/dev/urandom",
];
/** The driver looks for cards, their places and their links. */
const GPU_FILES = ["/sys", "/etc/nvidia"];
/** The driver gives its threads names, and does not start without: error 304 of cuInit. */
const THREADS = "/proc/self/task";

export type Facts = {
  /** The executable of the worker. */
  program: string;
  /** Its dynamic linker, which the kernel starts; null: it has none. */
  interpreter: string | null;
  /** Where the sources lie that it runs from; null for the executable as it ships. */
  sources: string | null;
  /** Where native libraries are extracted. */
  libraries: string;
  /** LD_LIBRARY_PATH of the worker. */
  libraryPath: string;
  /** Devices of GPUs. */
  devices: readonly string[];
  /** CUDA_CACHE_PATH of the worker. */
  cudaCache: string;
  folder: { own: string; given: string; socketDir: string };
};

export function rulesFor({ reads }: Policy, facts: Facts, grants: Grants): Rule[] {
  const { program, interpreter, sources, libraries, libraryPath, folder } = facts;
  const all = (access: Rule[0], paths: readonly string[]) => paths.map((path): Rule => [access, path]);
  const gpu: Rule[] = grants.gpu
    ? [...all("reads", GPU_FILES), ...all("drives", facts.devices), ["writes", THREADS], ["writes", facts.cudaCache]]
    : [];
  return [
    ...all("runs", interpreter === null ? [program] : [program, interpreter]),
    ...all("reads", [...SYSTEM_FILES, libraries, ...(sources === null ? [] : [sources])]),
    ...all(
      "reads",
      libraryPath.split(":").filter((path) => path.startsWith("/")),
    ),
    ["drives", "/dev/null"],
    ...gpu,
    ...all("reads", [...reads, folder.given, ...(grants.reads ?? [])]),
    ...all("writes", [...new Set([folder.own, folder.socketDir]), ...(grants.writes ?? [])]),
    ...all("updates", grants.updates ?? []),
  ];
}

const GPU_DEVICE = /^(nvidia|nvhost|nvmap|dxg$)/;

/** Of the names in /dev: cards, their common devices, and those of integrated GPUs. */
export const gpuDevices = (names: readonly string[]): string[] =>
  names.filter((name) => GPU_DEVICE.test(name)).map((name) => `/dev/${name}`);

type Start = { layers: readonly string[]; dials: boolean; owner: boolean; rules: readonly Rule[] };

/** argv of verk-confine. `before`: argv of what runs first, outside; empty: nothing. */
export function confineArgs(start: Start, before: readonly string[], argv: readonly string[]): string[] {
  return [
    "--layers",
    start.layers.filter((layer) => layer !== "no_new_privs").join(","),
    ...(start.dials ? ["--network"] : []),
    ...(start.owner ? ["--owner"] : []),
    ...start.rules.flatMap(([access, path]) => [`--${access}`, path]),
    ...(before.length > 0 ? ["--before", String(before.length), ...before] : []),
    "--",
    ...argv,
  ];
}
