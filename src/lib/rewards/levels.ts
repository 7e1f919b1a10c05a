/** Levels of the sandbox that an operator can require. */
import type { Layer } from "./contract.ts";

export type Level = "language" | "process" | "full";

const NEEDS: Record<Level, readonly Layer[]> = {
  language: ["language"],
  process: ["language", "rlimits", "no_new_privs", "seccomp"],
  full: ["language", "rlimits", "no_new_privs", "seccomp", "landlock", "namespaces"],
};

/** The layers that `level` asks for and that do not hold. */
export const missingLayers = (level: Level, holding: readonly Layer[]): Layer[] =>
  NEEDS[level].filter((layer) => !holding.includes(layer));

/** The highest level whose layers all hold. */
export const levelOf = (holding: readonly Layer[]): Level | undefined =>
  (["full", "process", "language"] as const).find((level) => missingLayers(level, holding).length === 0);
