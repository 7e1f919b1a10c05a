import { expect, test } from "bun:test";
import { doneAnswer, NEW_ANSWER } from "./answer.ts";
import {
  above,
  add,
  branchesOf,
  choose,
  copied,
  EMPTY_TREE,
  openCalls,
  pathOf,
  remove,
  reveal,
  type Tree,
  type Turn,
  withAnswer,
} from "./tree.ts";

const user = (id: string, parent: string | null): Turn => ({ id, parent, role: "user", text: id, images: [] });
const answer = (id: string, parent: string): Turn => ({
  id,
  parent,
  role: "assistant",
  answer: doneAnswer({ text: id }),
});
const grown = (...turns: Turn[]): Tree => turns.reduce(add, EMPTY_TREE);
const ids = (tree: Tree) => pathOf(tree).map(({ id }) => id);
const TALK = grown(user("q1", null), answer("a1", "q1"), user("q2", "a1"), answer("a2", "q2"));

test("an edited message and another answer are branches, and a return shows what was below them", () => {
  const edited = add(add(TALK, user("q2b", "a1")), answer("a2b", "q2b"));
  expect(ids(edited)).toEqual(["q1", "a1", "q2b", "a2b"]);
  expect(branchesOf(edited, "q2b")).toEqual({ ids: ["q2", "q2b"], at: 1 });
  const again = add(edited, answer("a1b", "q1"));
  expect(ids(again)).toEqual(["q1", "a1b"]);
  expect(ids(choose(again, "a1"))).toEqual(["q1", "a1", "q2b", "a2b"]);
  expect(ids(choose(choose(again, "a1"), "q2"))).toEqual(["q1", "a1", "q2", "a2"]);
  const first = add(again, user("q1b", null));
  expect([ids(first), branchesOf(first, "q1").ids]).toEqual([["q1b"], ["q1", "q1b"]]);
  expect(ids(reveal(first, "a2"))).toEqual(["q1", "a1", "q2", "a2"]);
});

test("a removed turn takes what follows it, and its sibling is shown", () => {
  const edited = add(TALK, user("q2b", "a1"));
  expect(ids(remove(edited, "q2b"))).toEqual(["q1", "a1", "q2", "a2"]);
  expect(ids(remove(TALK, "a1"))).toEqual(["q1"]);
  expect(remove(TALK, "q1").turns.size).toBe(0);
});

test("an answer grows in its place, and one that is gone stays gone", () => {
  const grows = withAnswer(TALK, "a2", doneAnswer({ text: "more" }));
  expect(pathOf(grows).at(-1)).toMatchObject({ id: "a2", answer: { text: "more" } });
  expect(withAnswer(TALK, "a9", NEW_ANSWER)).toBe(TALK);
  expect(above(TALK, "q2").map(({ id }) => id)).toEqual(["q1", "a1"]);
});

test("a column that takes over a conversation ends with its last question", () => {
  expect(ids(copied(TALK))).toEqual(["q1", "a1", "q2"]);
  expect(ids(copied(EMPTY_TREE))).toEqual([]);
});

test("calls are open until each has a result, and not while the answer is written", () => {
  const calls = ["c1", "c2"].map((id) => ({ id, name: "add", text: "{}" }));
  const called: Turn = { id: "a1", parent: "q1", role: "assistant", answer: doneAnswer({ calls }) };
  const talk = grown(user("q1", null), called);
  const open = (tree: Tree) => openCalls(pathOf(tree)).map(({ id }) => id);
  expect(open(talk)).toEqual(["c1", "c2"]);
  const result: Turn = { id: "r1", parent: "a1", role: "tool", call: "c1", name: "add", text: "3" };
  expect(open(add(talk, result))).toEqual(["c2"]);
  expect(open(add(talk, user("q2", "a1")))).toEqual([]);
  expect(open(withAnswer(talk, "a1", { ...doneAnswer({ calls }), state: "streaming" }))).toEqual([]);
});
