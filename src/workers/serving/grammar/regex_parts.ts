/**
 * Parts of a pattern and the cost of matching them. llama.cpp follows all readings of a text at once, and every stream
 * of the model waits for the slowest request. A pattern like (a{0,2000}){0,2000} would block them all. The figures are
 * upper bounds: an expensive pattern is never accepted, and some cheap ones are rejected.
 */
import type { Rules } from "./rules.ts";

export type Part = {
  body: string;
  /** Length in characters; undefined if it varies. */
  length: number | undefined;
  /** Number of positions in it, with all repetitions expanded. */
  size: number;
  /** The number of positions that can be open at once. */
  live: number;
  /** The number of ways out of a position: the longest run of optional parts, or alternatives. */
  skips: number;
  branches: number;
  /** Worst case of open positions times the ways out of each. */
  cost: number;
  /** True if it matches the empty text. */
  empty: boolean;
};

const MAX_LIVE = 500;
const MAX_COST = 4_000; // measured: 40 tokens take 0.2 s near it, and a token takes seconds at ten times as much

export const ONE: Part = { body: "", length: 1, size: 1, live: 1, skips: 0, branches: 1, cost: 0, empty: false };
export const ANY: Part = { ...ONE, body: "char*", length: undefined, size: 2, skips: 1, empty: true };
const NONE: Part = { ...ONE, body: '""', length: 0, size: 0, live: 0, empty: true };

export const tooHard = ({ live, cost }: Part) => live > MAX_LIVE || cost > MAX_COST;

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
const most = (numbers: readonly number[]) => Math.max(...numbers);

export function either(parts: readonly Part[]): Part {
  const [first] = parts as [Part];
  return {
    body: parts.map((part) => part.body).join(" | "),
    length: parts.every((part) => part.length === first.length) ? first.length : undefined,
    size: sum(parts.map((part) => part.size)),
    live: sum(parts.map((part) => part.live)),
    skips: most(parts.map((part) => part.skips)),
    branches: sum(parts.map((part) => part.branches)),
    cost: sum(parts.map((part) => part.cost)),
    empty: parts.some((part) => part.empty),
  };
}

/** After a part of varying length every position of the following parts may be open. */
export function inOrder(parts: readonly Part[]): Part {
  if (parts.length === 0) return NONE;
  const varies = parts.findIndex((part) => part.length === undefined);
  const behind = varies < 0 ? [] : parts.slice(varies + 1);
  const live = most(parts.map((part) => part.live)) + sum(behind.map((part) => part.size));
  const skips = longestRun(parts);
  return {
    body: parts.map((part) => part.body).join(" "),
    length: varies < 0 ? sum(parts.map((part) => part.length as number)) : undefined,
    size: sum(parts.map((part) => part.size)),
    live,
    skips,
    branches: most(parts.map((part) => part.branches)),
    cost: Math.max(live * skips, sum(parts.map((part) => part.cost))),
    empty: parts.every((part) => part.empty),
  };
}

function longestRun(parts: readonly Part[]): number {
  let longest = 0;
  let run = 0;
  for (const part of parts) {
    run = part.empty ? run + Math.max(part.skips, 1) : 0;
    longest = Math.max(longest, run, part.skips);
  }
  return longest;
}

export function times(part: Part, min: number, max: number, rules: Rules): Part {
  if (max === 0) return NONE;
  const endless = max === Number.POSITIVE_INFINITY;
  const size = part.size * (endless ? min + 1 : max);
  const skips = Math.max(part.skips, 1) * (part.empty && !endless ? max : 1);
  const varies = part.length === undefined;
  return {
    body: rules.repeat(rules.define(part.body), min, max),
    length: min === max && part.length !== undefined ? part.length * min : undefined,
    size,
    live: varies ? size : part.live + 1,
    skips,
    branches: part.branches + 1,
    cost: varies ? Math.max(part.cost, size * Math.max(skips, part.branches)) : part.cost,
    empty: min === 0 || part.empty,
  };
}
