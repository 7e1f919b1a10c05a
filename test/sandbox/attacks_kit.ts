/** An attack on the reward sandbox, and the Python that attacks share. */
import type { Fault, Rejection } from "../../src/lib/rewards/contract.ts";

export type Attack = {
  name: string;
  source: string;
  /** Replaces the language of its list. */
  language?: string;
  /** Allowed outcomes for a sample; `score` is a number other than 666. */
  samples?: readonly (Fault["kind"] | "score")[];
  /** Allowed outcomes of loading the source, for an attack that must not load. */
  rejected?: readonly Rejection["kind"][];
  /** Leaves its process as it was, so attacks in Python share one: its start costs a second. */
  shares?: true;
};

export const reward = (...lines: string[]) =>
  `def reward(completions, **kwargs):\n${lines.map((l) => `    ${l}`).join("\n")}\n`;
export const scores = "return [0.5] * len(completions)";
export const won = "return [666.0] * len(completions)";

/** One piece of code with several attacks: a completion is the number of its attack. Each sample is called alone. */
export const together = (attacks: readonly Attack[]): string =>
  [
    `SOURCES = ${JSON.stringify(attacks.map(({ source }) => source))}`,
    "def reward(completions, **kwargs):",
    "    if len(completions) > 1: raise ValueError('one at a time')",
    "    space = {}",
    "    exec(SOURCES[int(completions[0])], space)",
    "    return space['reward'](completions, **kwargs)",
    "",
  ].join("\n");
