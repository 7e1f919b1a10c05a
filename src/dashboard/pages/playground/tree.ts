/** The turns of one column as a tree. An edit or another answer is a sibling, so nothing that was said is lost. Pure. */
import type { Answer } from "./answer.ts";

type Node = { id: string; parent: string | null };
export type TextTurn = Node & { role: "user" | "system"; text: string; images: readonly string[] };
/** `by`: the title of the column that answered. */
export type AnswerTurn = Node & { role: "assistant"; answer: Answer; by?: string | undefined };
/** The result of a call, typed by a person. */
export type ResultTurn = Node & { role: "tool"; call: string; name: string; text: string };
export type Turn = TextTurn | AnswerTurn | ResultTurn;

/** `turns`: in the order in which they were made. `chosen`: the child that is shown, by its parent. */
export type Tree = {
  readonly turns: ReadonlyMap<string, Turn>;
  readonly chosen: ReadonlyMap<string | null, string>;
};

export const EMPTY_TREE: Tree = { turns: new Map(), chosen: new Map() };

/** The new turn is shown. A turn with the same id is replaced. */
export const add = ({ turns, chosen }: Tree, turn: Turn): Tree => ({
  turns: new Map(turns).set(turn.id, turn),
  chosen: new Map(chosen).set(turn.parent, turn.id),
});

/** While an answer grows. An answer that is removed stays removed. */
export function withAnswer(tree: Tree, id: string, answer: Answer): Tree {
  const turn = tree.turns.get(id);
  if (turn?.role !== "assistant") return tree;
  return { ...tree, turns: new Map(tree.turns).set(id, { ...turn, answer }) };
}

/** Removes a turn and what follows it. Its newest sibling is shown instead. */
export function remove(tree: Tree, id: string): Tree {
  const removed = new Set([id]);
  for (const { id: each, parent } of tree.turns.values()) if (parent !== null && removed.has(parent)) removed.add(each);
  return {
    turns: new Map([...tree.turns].filter(([each]) => !removed.has(each))),
    chosen: new Map([...tree.chosen].filter(([parent, child]) => !removed.has(child) && !removed.has(parent ?? ""))),
  };
}

function childrenOf({ turns }: Tree): Map<string | null, string[]> {
  const children = new Map<string | null, string[]>();
  for (const { id, parent } of turns.values()) children.set(parent, [...(children.get(parent) ?? []), id]);
  return children;
}

/** The turns that are shown, from the first one on. */
export function pathOf(tree: Tree): Turn[] {
  const children = childrenOf(tree);
  const path: Turn[] = [];
  for (let at: string | null = null; ; ) {
    const next: string | undefined = tree.chosen.get(at) ?? children.get(at)?.at(-1);
    const turn: Turn | undefined = tree.turns.get(next ?? "");
    if (!turn) return path;
    path.push(turn);
    at = turn.id;
  }
}

export const endOf = (tree: Tree): Turn | undefined => pathOf(tree).at(-1);

/** The turns above one, without it. */
export function above({ turns }: Tree, id: string): Turn[] {
  const path: Turn[] = [];
  for (let at = turns.get(id)?.parent ?? null; at !== null; ) {
    const turn = turns.get(at);
    if (!turn) break;
    path.unshift(turn);
    at = turn.parent;
  }
  return path;
}

/** The branches at a turn, in the order in which they were made, and the place of the turn among them. */
export function branchesOf(tree: Tree, id: string): { ids: string[]; at: number } {
  const turn = tree.turns.get(id);
  const ids = turn ? (childrenOf(tree).get(turn.parent) ?? []) : [];
  return { ids, at: ids.indexOf(id) };
}

/** Shows this branch, with the turns below as they were shown last. */
export function choose(tree: Tree, id: string): Tree {
  const turn = tree.turns.get(id);
  return turn ? { ...tree, chosen: new Map(tree.chosen).set(turn.parent, id) } : tree;
}

/** Shows the path that leads to a turn, wherever it is. */
export function reveal(tree: Tree, id: string): Tree {
  const turn = tree.turns.get(id);
  if (!turn) return tree;
  return [...above(tree, id), turn].reduce((shown, { id: each }) => choose(shown, each), tree);
}

/** Calls of the last answer that have no result yet. */
export function openCalls(path: readonly Turn[]): { id: string; name: string; text: string }[] {
  const from = path.findLastIndex(({ role }) => role === "assistant");
  const turn = path[from];
  if (turn?.role !== "assistant" || turn.answer.state === "waiting" || turn.answer.state === "streaming") return [];
  const answered = new Set(path.slice(from + 1).flatMap((each) => (each.role === "tool" ? [each.call] : [])));
  return path.slice(from + 1).some(({ role }) => role !== "tool")
    ? []
    : turn.answer.calls.filter(({ id }) => !answered.has(id));
}

/** The turns down to the last question, for a column that shall answer the same. */
export function copied(tree: Tree): Tree {
  const path = pathOf(tree);
  const last = path.findLastIndex(({ role }) => role !== "assistant");
  return path.slice(0, last + 1).reduce(add, EMPTY_TREE);
}
