/** The layers around a worker, and which of them an operator insists on with `sandbox.require`. */
import type { Level } from "../../lib/rewards/levels.ts";

export const WORKER_LAYERS = ["no_new_privs", "seccomp", "landlock", "namespaces"] as const;
export type WorkerLayer = (typeof WORKER_LAYERS)[number];

const NEEDS: Record<Level, readonly WorkerLayer[]> = {
  language: [],
  process: ["no_new_privs", "seccomp"],
  full: WORKER_LAYERS,
};

/** The layers that `level` asks for and that do not hold. A worker with the host's network has no namespace. */
export const missingWorkerLayers = (level: Level, holding: readonly WorkerLayer[], dials = false): WorkerLayer[] =>
  NEEDS[level].filter((layer) => !holding.includes(layer) && !(dials && layer === "namespaces"));
