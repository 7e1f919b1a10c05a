/** The jail of a custom job, on this machine or on a node: mounts, environment and limits of its command. */
import { basename } from "node:path";
import type { JobResources } from "../../lib/training/resources.ts";
import { MIB } from "../../lib/units.ts";
import type { ForeignDir } from "../files/foreign_dir.ts";
import { volumeOf, workspaceOf } from "../files/sandbox_dir.ts";
import { SESSION_ENV, sessionMounts } from "./session_root.ts";
import { PROXY_URL } from "./spec.ts";
import type { JailEnd, JailSpec } from "./types.ts";

/** Names in /workspace. */
export const OUTPUT = "output";
export const DATASET = "dataset.jsonl";

const OPEN_FILES = 4096;
const TMP_SHARE = 4; // /tmp is memory. It gets a quarter of the memory limit.

/** UUIDs of the leased cards, and their device nodes. */
export type Cards = { uuids: readonly string[]; nodes: readonly string[] };

export type CustomJail = {
  job: { id: string; seed: number; command: string };
  work: ForeignDir;
  resources: Pick<JobResources, "memory_mib" | "cpus" | "disk_mib">;
  limits: { processes: number; entries: number; wallMs: number };
  /** Paths of read-only volumes; `index`: of their copy. Writable ones are directories of /workspace. */
  readOnly: readonly { index: number; path: string }[];
  cards: Cards;
  /** Variables of the user. */
  env: Readonly<Record<string, string>>;
  secrets: Readonly<Record<string, string>>;
  /** Socket of the proxy of a job with the network `guarded`. */
  proxy: string | undefined;
};

export function customJail(jail: CustomJail): JailSpec {
  const { job, work, resources, limits, cards, proxy } = jail;
  const memoryBytes = resources.memory_mib * MIB;
  const diskBytes = resources.disk_mib * MIB;
  const volumes = jail.readOnly.map(({ index, path }) => ({ from: volumeOf(work, index), to: path, writable: false }));
  return {
    argv: ["/bin/sh", "-c", job.command],
    env: {
      ...ENV,
      ...(proxy === undefined ? {} : PROXY_ENV),
      ...jail.env,
      ...jail.secrets,
      CUDA_VISIBLE_DEVICES: cards.uuids.join(),
      VERK_JOB_ID: job.id,
      VERK_SEED: String(job.seed),
    },
    cwd: "/workspace",
    mounts: [
      ...sessionMounts({
        workspace: workspaceOf(work),
        volumes,
        network: "none",
        tmpBytes: Math.floor(memoryBytes / TMP_SHARE),
      }),
      ...cards.nodes.map((from) => ({ kind: "device" as const, from, to: `/dev/${basename(from)}` })),
    ],
    limits: {
      processes: limits.processes,
      memoryBytes,
      openFiles: OPEN_FILES,
      cpuSeconds: 0, // wallMs is the limit
      wallMs: limits.wallMs,
      cpus: resources.cpus ?? undefined,
      fileBytes: diskBytes,
      disk: { at: "/workspace", bytes: diskBytes, entries: limits.entries },
    },
    network: "none",
    proxy,
    filter: "session",
  };
}

const ENV = {
  ...SESSION_ENV,
  PYTHONUNBUFFERED: "1", // the log must not lag behind
  VERK_DATASET: `/workspace/${DATASET}`,
  VERK_OUTPUT: `/workspace/${OUTPUT}`,
};

/** Programs read either spelling. What runs in the jail itself is reached without the proxy. */
const PROXY_ENV = Object.fromEntries(
  [
    ["http_proxy", PROXY_URL],
    ["https_proxy", PROXY_URL],
    ["no_proxy", "localhost,127.0.0.1,::1"],
  ].flatMap(([name = "", value = ""]) => [
    [name, value],
    [name.toUpperCase(), value],
  ]),
);

type Failure = {
  code: "timeout" | "out_of_memory" | "provisioning_failed" | "command_failed" | "worker_crashed";
  message: string;
  param: string | null;
};

/** The failure of a job whose command did not exit with 0. `last`: its last lines. */
export function failureOf({ reason, exitCode, signal, message }: JailEnd, last: string): Failure {
  const output = last === "" ? "" : `\n${last}`;
  if (reason === "timeout")
    return {
      code: "timeout",
      message: `The command reached its time limit: raise max_runtime_minutes${output}`,
      param: "/max_runtime_minutes",
    };
  if (reason === "memory")
    return { code: "out_of_memory", message: `Command killed: ${message}${output}`, param: null };
  if (reason === "setup")
    return { code: "provisioning_failed", message: `The command could not be started: ${message}`, param: null };
  const ended = (code: Failure["code"], how: string): Failure => ({
    code,
    message: `The command ${how}${output}`,
    param: "/command",
  });
  if (reason === "exited") return ended("command_failed", `exited with code ${exitCode}`);
  if (reason === "signalled") return ended("command_failed", `was killed by signal ${signal}`);
  return ended("worker_crashed", `was killed: ${message}`);
}
