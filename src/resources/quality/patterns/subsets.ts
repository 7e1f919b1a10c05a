/**
 * Follows all ways through a graph at once. A set of states and what each character makes of it are computed when a text
 * first needs them, and kept for the next time. So a character costs one look-up, or at worst one visit of each state.
 */
import type { Alphabet, Side } from "./alphabet.ts";
import { CONDITIONS, type Graph } from "./network.ts";

const MAX_KEPT = 1_000_000; // states in the kept subsets and steps; then all are dropped
const STEP_WORK = 100; // of a new step beside its visits
const KEYS = new TextDecoder("utf-16le"); // the fastest way from numbers to a key

/** The states that a way has reached, without edges that need no character. `behind`: the character read last. */
export type Subset = { states: Uint16Array; behind: Side; steps: (Step | undefined)[] };
/** `before`: all states at the position before the character. `isGoal`: one of them is the goal. */
export type Step = { before: Uint16Array; isGoal: boolean; to: Subset };

export class Subsets {
  readonly #graph: Graph;
  readonly #alphabet: Alphabet;
  readonly #kept = new Map<string, Subset>();
  #keptStates = 0;
  #edge: Subset | undefined;
  readonly #found: Uint16Array;
  readonly #visited: Float64Array;
  #visit = 0;
  /** Spent so far on new steps, in visits of states (about 15 ns): what texts cost beside reading them. */
  work = 0;

  constructor(graph: Graph, alphabet: Alphabet) {
    this.#graph = graph;
    this.#alphabet = alphabet;
    this.#found = new Uint16Array(graph.states);
    this.#visited = new Float64Array(graph.states);
  }

  /** At the end of the text where reading begins. */
  atEdge(): Subset {
    this.#edge ??= this.subset(Uint16Array.of(this.#graph.root), "none");
    return this.#edge;
  }

  subset(states: Uint16Array, behind: Side): Subset {
    const key = behind + KEYS.decode(states);
    const existing = this.#kept.get(key);
    if (existing) return existing;
    const subset: Subset = { states, behind, steps: [] };
    this.#count(states);
    this.#kept.set(key, subset);
    return subset;
  }

  step(from: Subset, characterClass: number): Step {
    return from.steps[characterClass] ?? this.#newStep(from, characterClass);
  }

  #newStep(from: Subset, characterClass: number): Step {
    const ahead = this.#alphabet.sideOf(characterClass);
    const before = this.#reached(from, ahead);
    const isGoal = this.#visited[this.#graph.goal] === this.#visit;
    const after = this.#read(before, this.#alphabet.setsOf(characterClass)).sort();
    const step = { before, isGoal, to: this.subset(after, ahead) };
    this.work += STEP_WORK + before.length + after.length;
    this.#count(before);
    from.steps[characterClass] = step;
    return step;
  }

  #reached({ states, behind }: Subset, ahead: Side): Uint16Array {
    const { starts, to, label } = this.#graph.free;
    const holds = CONDITIONS.map((condition) => holdsAt(condition, behind, ahead));
    const visit = ++this.#visit;
    const reached = this.#found;
    const visited = this.#visited;
    let count = states.length;
    reached.set(states);
    for (let i = 0; i < count; i++) visited[states[i]!] = visit;
    for (let i = 0; i < count; i++) {
      const last = starts[reached[i]! + 1]!;
      for (let edge = starts[reached[i]!]!; edge < last; edge++) {
        const state = to[edge]!;
        if (visited[state] === visit || !holds[label[edge]!]) continue;
        visited[state] = visit;
        reached[count++] = state;
      }
    }
    return reached.slice(0, count);
  }

  /** The root is always there: a way may begin at every position. */
  #read(states: Uint16Array, isInSet: Uint8Array): Uint16Array {
    const { starts, to, label } = this.#graph.read;
    const visit = ++this.#visit;
    const reached = this.#found;
    const visited = this.#visited;
    reached[0] = this.#graph.root;
    visited[this.#graph.root] = visit;
    let count = 1;
    for (let i = 0; i < states.length; i++) {
      const last = starts[states[i]! + 1]!;
      for (let edge = starts[states[i]!]!; edge < last; edge++) {
        const state = to[edge]!;
        if (isInSet[label[edge]!] === 0 || visited[state] === visit) continue;
        visited[state] = visit;
        reached[count++] = state;
      }
    }
    return reached.slice(0, count);
  }

  #count(states: Uint16Array) {
    this.#keptStates += states.length;
    if (this.#keptStates <= MAX_KEPT) return;
    for (const subset of this.#kept.values()) subset.steps = []; // one that is still in use would hold all after it
    this.#kept.clear();
    this.#edge = undefined;
    this.#keptStates = 0;
  }
}

function holdsAt(condition: (typeof CONDITIONS)[number], behind: Side, ahead: Side): boolean {
  if (condition === "none") return true;
  if (condition === "start") return behind === "none";
  if (condition === "end") return ahead === "none";
  const isEdge = (behind === "word") !== (ahead === "word");
  return isEdge === (condition === "word");
}
