/**
 * Matches regular expressions of users in linear time: all ways through the pattern are followed at once, one character
 * at a time, so no pattern can take exponential time. Long texts let other work of the thread in.
 */
import { takingTurns } from "../turns.ts";
import { isWord, PatternError, type PatternNode, parsePattern } from "./pattern_parse.ts";

const MAX_LENGTH = 2_000;
const MAX_STEPS = 2_000; // of a compiled pattern; repetitions are written out
const TURN_CHARACTERS = 256;

type Step =
  | { op: "set"; has: (codePoint: number) => boolean }
  | { op: "split"; to: number[] }
  | { op: "assert"; kind: Extract<PatternNode, { type: "assert" }>["kind"] }
  | { op: "match" };

/** True if the pattern occurs in the text. */
export type Pattern = { occursIn: (text: string) => Promise<boolean> };

/** The error follows the name of a field. */
export function compilePattern(source: string, { ignoreCase = false } = {}): Pattern | { error: string } {
  if (source.length > MAX_LENGTH) return { error: `is longer than ${MAX_LENGTH} characters` };
  try {
    const steps: Step[] = [];
    emit(steps, parsePattern(source, ignoreCase));
    steps.push({ op: "match" });
    return { occursIn: (text) => search(steps, text) };
  } catch (error) {
    if (error instanceof PatternError) return { error: `is not a pattern that can be used: it ${error.message}` };
    throw error;
  }
}

function emit(steps: Step[], node: PatternNode) {
  if (steps.length > MAX_STEPS) throw new PatternError("is too large: use fewer or smaller repetitions");
  switch (node.type) {
    case "set":
      steps.push({ op: "set", has: node.has });
      return;
    case "assert":
      steps.push({ op: "assert", kind: node.kind });
      return;
    case "sequence":
      for (const part of node.parts) emit(steps, part);
      return;
    case "choice":
      return emitChoice(steps, node.parts);
    case "repeat":
      return emitRepeat(steps, node);
  }
}

function emitChoice(steps: Step[], parts: readonly PatternNode[]) {
  const split: { op: "split"; to: number[] } = { op: "split", to: [] };
  const ends: { op: "split"; to: number[] }[] = [];
  steps.push(split);
  for (const part of parts) {
    split.to.push(steps.length);
    emit(steps, part);
    const end: { op: "split"; to: number[] } = { op: "split", to: [] };
    steps.push(end);
    ends.push(end);
  }
  for (const end of ends) end.to.push(steps.length);
}

function emitRepeat(steps: Step[], { node, min, max }: Extract<PatternNode, { type: "repeat" }>) {
  for (let i = 0; i < min; i++) emit(steps, node);
  if (Number.isFinite(max)) {
    const skips: { op: "split"; to: number[] }[] = [];
    for (let i = min; i < max; i++) {
      const skip: { op: "split"; to: number[] } = { op: "split", to: [steps.length + 1] };
      steps.push(skip);
      skips.push(skip);
      emit(steps, node);
    }
    for (const skip of skips) skip.to.push(steps.length);
    return;
  }
  const loop = steps.length;
  const split: { op: "split"; to: number[] } = { op: "split", to: [loop + 1] };
  steps.push(split);
  emit(steps, node);
  steps.push({ op: "split", to: [loop] });
  split.to.push(steps.length);
}

async function search(steps: readonly Step[], text: string): Promise<boolean> {
  const turn = takingTurns();
  const characters = Array.from(text, (character) => character.codePointAt(0)!);
  const visited = new Int32Array(steps.length).fill(-1);
  let current: number[] = [];
  for (let at = 0; at <= characters.length; at++) {
    if (at % TURN_CHARACTERS === 0) await turn();
    const before = characters[at - 1];
    const here = characters[at];
    const next: number[] = [];
    const open = [...current, 0].reverse(); // the pattern may begin at every position
    while (open.length > 0) {
      const index = open.pop()!;
      if (visited[index] === at) continue;
      visited[index] = at;
      const step = steps[index]!;
      if (step.op === "match") return true;
      if (step.op === "split") open.push(...step.to);
      else if (step.op === "assert") {
        if (holds(step.kind, before, here)) open.push(index + 1);
      } else if (here !== undefined && step.has(here)) next.push(index + 1);
    }
    current = next;
  }
  return false;
}

function holds(kind: Extract<Step, { op: "assert" }>["kind"], before: number | undefined, here: number | undefined) {
  if (kind === "start") return before === undefined;
  if (kind === "end") return here === undefined;
  const isEdge = (before !== undefined && isWord(before)) !== (here !== undefined && isWord(here));
  return isEdge === (kind === "word");
}
