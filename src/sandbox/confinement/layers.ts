/** The layers of confinement of a worker, and those that `sandbox.require` makes mandatory. */
import type { Level } from "../../lib/rewards/levels.ts";

export const WORKER_LAYERS = ["no_new_privs", "seccomp", "landlock", "namespaces"] as const;
export type WorkerLayer = (typeof WORKER_LAYERS)[number];

const NEEDS: Record<Level, readonly WorkerLayer[]> = {
  language: [],
  process: ["no_new_privs", "seccomp"],
  full: WORKER_LAYERS,
};

/** The layers that `level` requires and that are missing. A worker that uses the network has no network namespace. */
export const missingWorkerLayers = (level: Level, holding: readonly WorkerLayer[], network = false): WorkerLayer[] =>
  NEEDS[level].filter((layer) => !holding.includes(layer) && !(network && layer === "namespaces"));
