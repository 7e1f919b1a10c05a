/** Levels of sandboxing that an operator can require. */
import type { Layer } from "./contract.ts";

export type Level = "language" | "process" | "full";

const NEEDS: Record<Level, readonly Layer[]> = {
  language: ["language"],
  process: ["language", "rlimits", "no_new_privs", "seccomp"],
  full: ["language", "rlimits", "no_new_privs", "seccomp", "landlock", "namespaces"],
};

/** Returns the layers that `level` requires and that are not active. */
export const missingLayers = (level: Level, holding: readonly Layer[]): Layer[] =>
  NEEDS[level].filter((layer) => !holding.includes(layer));

/** Returns the highest level whose layers are all active. */
export const levelOf = (holding: readonly Layer[]): Level | undefined =>
  (["full", "process", "language"] as const).find((level) => missingLayers(level, holding).length === 0);
