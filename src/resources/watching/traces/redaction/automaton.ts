/**
 * Finds every character that some match of some pattern covers, in linear time. Two automata read the text: one forward
 * (states that a match begun earlier has reached) and one backward (states from which a match can still end). A
 * character is covered if a step over it leads from the first to the second. Both are built while they read, from the
 * same nondeterministic automaton, so no pattern can make the search slow.
 */
import { type Pattern, PatternError, type Ranges, WORD } from "./pattern.ts";

const MAX_STATES = 3_000;
const MAX_CACHED = 1_000; // states of each direction; then they are built again
const START = 0;
const ACCEPT = 1;

/** A state steps over a character of `ranges`, or goes on without one; `boundary`: only where `\b` (or `\B`) holds. */
type State = { ranges?: Ranges; boundary?: boolean; next: number[] };
type Closure = { steps: number[]; accepts: boolean };
/** `acceptsAtEnd`: a match ends here if the text does. Filled in at the first text that ends in this state. */
type ForwardState = {
  states: readonly number[];
  afterWord: boolean;
  edges: (ForwardEdge | undefined)[];
  acceptsAtEnd?: boolean;
};
type ForwardEdge = { to: ForwardState; targets: readonly number[]; accepts: boolean };
type BackwardState = { has: Uint8Array; edges: (BackwardState | undefined)[] };

export class Automaton {
  readonly #states: State[] = [{ next: [] }, { next: [] }];
  readonly #classOf = new Uint16Array(65_536);
  readonly #isWord: boolean[] = [];
  /** State × class → 1 if the state steps over characters of the class. */
  readonly #accepts: Uint8Array;
  readonly #classes: number;
  readonly #closures: (Closure | undefined)[] = [];
  readonly #initial: ForwardState = { states: [START], afterWord: false, edges: [] };
  #forward = new Map<string, ForwardState>();
  #backward = new Map<string, BackwardState>();

  constructor(patterns: readonly Pattern[]) {
    for (const pattern of patterns) this.#state(START).next.push(this.#build(pattern, ACCEPT));
    this.#classes = this.#partition();
    this.#accepts = new Uint8Array(this.#states.length * this.#classes);
    for (const [index, { ranges = [] }] of this.#states.entries())
      for (const [low, high] of ranges)
        for (let c = this.#classOf[low] as number; c <= (this.#classOf[high] as number); c++)
          this.#accepts[index * this.#classes + c] = 1;
  }

  /** The text with each run of covered characters replaced. The same text if nothing matches. */
  replace(text: string, replacement: string): string {
    if (!this.#matches(text)) return text;
    const covered = this.#covered(text, this.#edges(text));
    let result = "";
    for (let i = 0; i < text.length; ) {
      const from = i;
      const isCovered = covered[i];
      while (i < text.length && covered[i] === isCovered) i++;
      result += isCovered ? replacement : text.slice(from, i);
    }
    return result;
  }

  /** Most texts have no match, and this loop is all that reads them. */
  #matches(text: string): boolean {
    const classOf = this.#classOf;
    let at = this.#initial;
    for (let i = 0; i < text.length; i++) {
      const c = classOf[text.charCodeAt(i)] as number;
      const edge = at.edges[c] ?? this.#forwardEdge(at, c);
      if (edge.accepts) return true;
      at = edge.to;
    }
    at.acceptsAtEnd ??= this.#closeAll(at.states, at.afterWord).accepts;
    return at.acceptsAtEnd;
  }

  #edges(text: string): ForwardEdge[] {
    const edges: ForwardEdge[] = [];
    let at = this.#initial;
    for (let i = 0; i < text.length; i++) {
      const c = this.#classOf[text.charCodeAt(i)] as number;
      const edge = at.edges[c] ?? this.#forwardEdge(at, c);
      edges.push(edge);
      at = edge.to;
    }
    return edges;
  }

  #forwardState(states: readonly number[], afterWord: boolean): ForwardState {
    const key = `${afterWord} ${states.join()}`;
    let found = this.#forward.get(key);
    if (!found) {
      if (this.#forward.size >= MAX_CACHED) this.#forward.clear();
      found = { states, afterWord, edges: [] };
      this.#forward.set(key, found);
    }
    return found;
  }

  #forwardEdge(from: ForwardState, c: number): ForwardEdge {
    const isWord = this.#isWord[c] as boolean;
    const { steps, accepts } = this.#closeAll(from.states, from.afterWord !== isWord);
    const reached = new Set<number>([START]);
    const targets: number[] = [];
    for (const step of steps) {
      if (this.#accepts[step * this.#classes + c] === 0) continue;
      const target = this.#state(step).next[0] as number;
      targets.push(target);
      reached.add(target);
    }
    const to = this.#forwardState(
      [...reached].sort((a, b) => a - b),
      isWord,
    );
    const edge = { to, targets, accepts };
    from.edges[c] = edge;
    return edge;
  }

  #covered(text: string, edges: readonly ForwardEdge[]): Uint8Array {
    const covered = new Uint8Array(text.length);
    const isWordAt = (i: number) =>
      i >= 0 && i < text.length && (this.#isWord[this.#classOf[text.charCodeAt(i)] as number] as boolean);
    let behind = this.#backwardState((state) => this.#closure(state, isWordAt(text.length - 1)).accepts);
    for (let i = text.length - 1; i >= 0; i--) {
      const { targets } = edges[i] as ForwardEdge;
      for (const target of targets) if (behind.has[target] === 1) covered[i] = 1;
      const c = this.#classOf[text.charCodeAt(i)] as number;
      const atBoundary = isWordAt(i - 1) !== isWordAt(i);
      const edge = c * 2 + Number(atBoundary);
      behind = behind.edges[edge] ?? this.#backwardEdge(behind, c, atBoundary, edge);
    }
    return covered;
  }

  #backwardState(isIn: (state: number) => boolean): BackwardState {
    const has = new Uint8Array(this.#states.length);
    for (let state = 1; state < has.length; state++) if (isIn(state)) has[state] = 1;
    const key = has.join("");
    let found = this.#backward.get(key);
    if (!found) {
      if (this.#backward.size >= MAX_CACHED) this.#backward.clear();
      found = { has, edges: [] };
      this.#backward.set(key, found);
    }
    return found;
  }

  #backwardEdge(from: BackwardState, c: number, atBoundary: boolean, edge: number): BackwardState {
    const steps = (step: number) =>
      this.#accepts[step * this.#classes + c] === 1 && from.has[this.#state(step).next[0] as number] === 1;
    const to = this.#backwardState((state) => {
      const closure = this.#closure(state, atBoundary);
      return closure.accepts || closure.steps.some(steps);
    });
    from.edges[edge] = to;
    return to;
  }

  #closeAll(states: readonly number[], atBoundary: boolean): Closure {
    const steps = new Set<number>();
    let accepts = false;
    for (const state of states) {
      const closure = this.#closure(state, atBoundary);
      accepts ||= closure.accepts;
      for (const step of closure.steps) steps.add(step);
    }
    return { steps: [...steps], accepts };
  }

  /** The steps that a state reaches without reading a character. */
  #closure(state: number, atBoundary: boolean): Closure {
    const index = state * 2 + Number(atBoundary);
    let closure = this.#closures[index];
    if (closure) return closure;
    closure = { steps: [], accepts: false };
    const visited = new Set([state]);
    for (const each of visited) {
      const { ranges, boundary, next } = this.#state(each);
      if (each === ACCEPT) closure.accepts = true;
      else if (ranges) closure.steps.push(each);
      else if (boundary === undefined || boundary === atBoundary) for (const to of next) visited.add(to);
    }
    this.#closures[index] = closure;
    return closure;
  }

  #state(index: number): State {
    return this.#states[index] as State;
  }

  #add(state: State): number {
    if (this.#states.length >= MAX_STATES)
      throw new PatternError("is too large together with the others: use fewer or smaller repetitions");
    return this.#states.push(state) - 1;
  }

  /** Builds the pattern from its end; the result is its first state. */
  #build(pattern: Pattern, next: number): number {
    if (pattern.kind === "set") return this.#add({ ranges: pattern.ranges, next: [next] });
    if (pattern.kind === "boundary") return this.#add({ boundary: pattern.wanted, next: [next] });
    if (pattern.kind === "sequence") return pattern.parts.reduceRight((to, part) => this.#build(part, to), next);
    if (pattern.kind === "choice") return this.#add({ next: pattern.parts.map((part) => this.#build(part, next)) });
    const { part, min, max } = pattern;
    let first = next;
    if (max === Number.POSITIVE_INFINITY) {
      const loop = this.#add({ next: [next] });
      this.#state(loop).next.push(this.#build(part, loop));
      first = loop;
    } else for (let i = min; i < max; i++) first = this.#add({ next: [next, this.#build(part, first)] });
    for (let i = 0; i < min; i++) first = this.#build(part, first);
    return first;
  }

  /** Code units that no state tells apart share a class. The result is the number of classes. */
  #partition(): number {
    const cuts = new Set<number>([0]);
    for (const ranges of [WORD, ...this.#states.map((state) => state.ranges ?? [])])
      for (const [low, high] of ranges) {
        cuts.add(low);
        cuts.add(high + 1);
      }
    const starts = [...cuts].filter((cut) => cut <= 0xffff).sort((a, b) => a - b);
    for (const [index, start] of starts.entries()) {
      this.#classOf.fill(index, start, starts[index + 1] ?? 65_536);
      this.#isWord.push(WORD.some(([low, high]) => low <= start && start <= high));
    }
    return starts.length;
  }
}
