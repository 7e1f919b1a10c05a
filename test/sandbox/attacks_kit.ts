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
};

export const reward = (...lines: string[]) =>
  `def reward(completions, **kwargs):\n${lines.map((l) => `    ${l}`).join("\n")}\n`;
export const scores = "return [0.5] * len(completions)";
export const won = "return [666.0] * len(completions)";
