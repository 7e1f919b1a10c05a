/** Turns parsed patterns into states and edges, readable from the start of a match and from its end. */
import { Alphabet } from "./alphabet.ts";
import { type Assertion, PatternError, type PatternNode } from "./parse.ts";
import type { Ranges } from "./ranges.ts";

const MAX_STATES = 3_000; // of all patterns together; repetitions are written out
const START = 0;
const ACCEPT = 1;

/** Flat arrays, because a text visits many edges. Those that leave state s are from `starts[s]` to `starts[s + 1]`. */
export type Edges = { starts: Uint32Array; to: Uint16Array; label: Uint16Array };
/** Ways through all patterns, from the root to the goal. */
export type Graph = {
  states: number;
  root: number;
  goal: number;
  /** Taken without a character. The label is the place of a condition in `CONDITIONS`. */
  free: Edges;
  /** Taken over a character. The label is the number of its set in the alphabet. */
  read: Edges;
};
/** `backward` has every edge turned round, to read a text from its end. */
export type Network = { alphabet: Alphabet; forward: Graph; backward: Graph };

export const CONDITIONS = ["none", "start", "end", "word", "not_word"] as const;
type Condition = (typeof CONDITIONS)[number];
const REVERSED: Record<Condition, Condition> = {
  none: "none",
  start: "end",
  end: "start",
  word: "word",
  not_word: "not_word",
};

/** A state goes on over a character of `ranges`, or without one. */
type State = { ranges?: Ranges; assertion?: Assertion; next: number[] };
type Edge = { from: number; to: number; label: number };

export function networkOf(patterns: readonly PatternNode[]): Network {
  const states = statesOf(patterns);
  const sets = new Map<Ranges, number>();
  const free: Edge[] = [];
  const read: Edge[] = [];
  for (const [from, { ranges, assertion = "none", next }] of states.entries()) {
    if (ranges && !sets.has(ranges)) sets.set(ranges, sets.size);
    const set = ranges && sets.get(ranges);
    for (const to of next)
      if (set === undefined) free.push({ from, to, label: CONDITIONS.indexOf(assertion) });
      else read.push({ from, to, label: set });
  }
  const count = states.length;
  const turnedFree = free.map((edge) => turned(edge, CONDITIONS.indexOf(REVERSED[CONDITIONS[edge.label]!])));
  const turnedRead = read.map((edge) => turned(edge, edge.label));
  return {
    alphabet: new Alphabet([...sets.keys()]),
    forward: { states: count, root: START, goal: ACCEPT, free: edgesOf(free, count), read: edgesOf(read, count) },
    backward: {
      states: count,
      root: ACCEPT,
      goal: START,
      free: edgesOf(turnedFree, count),
      read: edgesOf(turnedRead, count),
    },
  };
}

const turned = ({ from, to }: Edge, label: number): Edge => ({ from: to, to: from, label });

function edgesOf(edges: readonly Edge[], states: number): Edges {
  const sorted = edges.toSorted((a, b) => a.from - b.from);
  const starts = new Uint32Array(states + 1);
  for (const { from } of edges) starts[from + 1]!++;
  for (let state = 0; state < states; state++) starts[state + 1]! += starts[state]!;
  return {
    starts,
    to: Uint16Array.from(sorted, ({ to }) => to),
    label: Uint16Array.from(sorted, ({ label }) => label),
  };
}

function statesOf(patterns: readonly PatternNode[]): State[] {
  const states: State[] = [{ next: [] }, { next: [] }];
  const add = (state: State): number => {
    if (states.length >= MAX_STATES)
      throw new PatternError(
        `is too large${patterns.length > 1 ? " together with the others" : ""}: use fewer or smaller repetitions`,
      );
    return states.push(state) - 1;
  };
  /** Builds a pattern from its end; the result is its first state. */
  const build = (node: PatternNode, next: number): number => {
    if (node.type === "set") return add({ ranges: node.ranges, next: [next] });
    if (node.type === "assert") return add({ assertion: node.kind, next: [next] });
    if (node.type === "sequence") return node.parts.reduceRight((to, part) => build(part, to), next);
    if (node.type === "choice") return add({ next: node.parts.map((part) => build(part, next)) });
    return repeat(node, next);
  };
  const repeat = ({ node, min, max }: Extract<PatternNode, { type: "repeat" }>, next: number): number => {
    let first = next;
    if (max === Number.POSITIVE_INFINITY) {
      const loop: State = { next: [next] };
      first = add(loop);
      loop.next.push(build(node, first));
    } else for (let i = min; i < max; i++) first = add({ next: [next, build(node, first)] });
    for (let i = 0; i < min; i++) {
      const before = build(node, first);
      if (before === first) break; // nothing, however often: nested repetitions of it would never end
      first = before;
    }
    return first;
  };
  for (const pattern of patterns) states[START]!.next.push(build(pattern, ACCEPT));
  return states;
}
