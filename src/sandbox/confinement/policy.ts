/**
 * The policy of each kind of worker: the files it may use, and whether it may open outbound connections. The functions
 * are pure. A kind that is not in the table is not confined: it parses no untrusted data, or it confines itself.
 */
import type { Grants } from "../../platform/workers/types.ts";

const ACCESSES = ["reads", "runs", "writes", "updates", "drives"] as const;
export type Rule = readonly [access: (typeof ACCESSES)[number], path: string];

export type Policy = {
  /** The worker may use the network of the host. All others only listen on a socket in their folder. */
  network: boolean;
  /** With the network, it also listens on its socket. It must give up unix sockets once it does (workers/proxy/seal.ts). */
  listens?: boolean;
  /** Native libraries that must be extracted before the start, because the worker cannot write them. */
  groups: (gpu: boolean) => readonly string[];
  /** Files in addition to those that every worker may read. */
  reads: readonly string[];
  /**
   * The nice value of the worker, against the server and all other programs of the machine. Work that a caller waits for
   * comes before work in the background: one tenant's imports must not slow down another tenant's chat. A trainer loses
   * little, because there are few of them, and a card must not wait for the processor.
   */
  nice: number;
};

const llama = (gpu: boolean) => ["cxx", "shim", gpu ? "llama-cuda" : "llama"];

/** Needed to resolve names and to verify certificates of servers. */
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
  connector: { network: true, groups: () => [], reads: NETWORK_FILES, nice: 5 },
  converter: { network: false, groups: () => ["cxx", "shim", "llama"], reads: [], nice: 10 },
  detector: { network: false, groups: () => ["cxx", "sharp", "onnx"], reads: [], nice: 3 },
  importer: { network: false, groups: () => [], reads: [], nice: 5 },
  inspector: { network: false, groups: () => [], reads: [], nice: 10 },
  proxy: { network: true, listens: true, groups: () => [], reads: NETWORK_FILES, nice: 5 },
  serving: { network: false, groups: llama, reads: [], nice: 0 },
  trainer: { network: false, groups: llama, reads: [], nice: 6 },
} as const satisfies Record<string, Policy>;
export type ConfinedKind = keyof typeof POLICIES;

export const policyOf = (kind: string): Policy | undefined =>
  Object.hasOwn(POLICIES, kind) ? POLICIES[kind as ConfinedKind] : undefined;

/** Public programs and libraries of the system, and files from which the runtime reads facts about the machine. */
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
  "/proc", // Details of other processes are denied, because they need the right to trace them.
  "/sys/devices/system",
  "/sys/fs/cgroup",
  "/sys/kernel/mm",
  "/dev/zero",
  "/dev/random",
  "/dev/urandom",
];
/** The driver finds the cards and their topology here. */
const GPU_FILES = ["/sys", "/etc/nvidia"];
/** The driver names its threads here. Without access cuInit fails with error 304. */
const THREADS = "/proc/self/task";

export type Facts = {
  /** The executable of the worker. */
  program: string;
  /** Its dynamic linker; null for a static executable. */
  interpreter: string | null;
  /** Directory of the sources for a run from source; null for the released executable. */
  sources: string | null;
  /** Directory of the extracted native libraries. */
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

/** Selects the GPU devices among the names in /dev, including those of integrated GPUs. */
export const gpuDevices = (names: readonly string[]): string[] =>
  names.filter((name) => GPU_DEVICE.test(name)).map((name) => `/dev/${name}`);

type Start = {
  layers: readonly string[];
  network: boolean;
  listens: boolean;
  owner: boolean;
  nice: number;
  rules: readonly Rule[];
};

/** argv of verk-confine. `before` is the argv of a program that runs first, unconfined; empty for none. */
export function confineArgs(start: Start, before: readonly string[], argv: readonly string[]): string[] {
  return [
    "--layers",
    start.layers.filter((layer) => layer !== "no_new_privs").join(","),
    ...(start.network ? ["--network"] : []),
    ...(start.listens ? ["--listens"] : []),
    ...(start.owner ? ["--owner"] : []),
    "--nice",
    String(start.nice),
    ...start.rules.flatMap(([access, path]) => [`--${access}`, path]),
    ...(before.length > 0 ? ["--before", String(before.length), ...before] : []),
    "--",
    ...argv,
  ];
}
