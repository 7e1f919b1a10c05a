/** The state of the playground: the turns of all columns, what is being answered, and what is typed. */
import { signal } from "@preact/signals";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { type Answer, ask, doneAnswer, isUnderWay, NEW_ANSWER } from "./answer.ts";
import { type Column, keyOf } from "./columns.ts";
import { bodyOf, DEFAULTS, type Fields, streamed } from "./request.ts";
import type { Saved } from "./saved.ts";
import { messagesOf } from "./sent.ts";
import { servedModel } from "./serve.ts";
import {
  above,
  add,
  choose,
  copied,
  EMPTY_TREE,
  openCalls,
  pathOf,
  type ResultTurn,
  remove,
  type Tree,
  withAnswer,
} from "./tree.ts";

export type Draft = { text: string; images: readonly string[] };
export const NO_DRAFT: Draft = { text: "", images: [] };

/** The columns and deployments that the page shows now. */
export type World = { columns: readonly Column[]; deployments: readonly Deployment[]; isColoured: boolean };

export type Board = ReturnType<typeof newBoard>;

const LONGEST_NAME = 60;

/** `randomUUID` needs https or localhost, and a laboratory opens the page by the address of the machine. */
export const newId = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export function newBoard(start: { fields: Fields; draft: Draft }) {
  const fields = signal(start.fields);
  const draft = signal(start.draft);
  const trees = signal<ReadonlyMap<string, Tree>>(new Map());
  const running = signal<ReadonlyMap<string, AbortController>>(new Map());
  const saved = signal<Saved | undefined>(undefined);
  let world: World = { columns: [], deployments: [], isColoured: false };
  const hosts = signal<ReadonlyMap<string, string | undefined>>(new Map());
  const titles = new Map<string, string>(); // of columns, by their key
  let onSettled = () => {};

  const treeOf = (key: string): Tree => trees.value.get(key) ?? EMPTY_TREE;
  const setTree = (key: string, tree: Tree) => {
    trees.value = new Map(trees.value).set(key, tree);
  };
  const columnOf = (key: string) => world.columns.find((column) => keyOf(column) === key);

  /** Adds an answer below a turn, and fills it as the model writes. */
  async function answer(key: string, parent = pathOf(treeOf(key)).at(-1)?.id) {
    const column = columnOf(key);
    const question = parent === undefined ? undefined : treeOf(key).turns.get(parent);
    if (!column || !question || running.value.has(key)) return;
    const path = [...above(treeOf(key), question.id), question];
    const id = newId();
    const by = titles.get(key);
    setTree(key, add(treeOf(key), { id, parent: question.id, role: "assistant", answer: NEW_ANSWER, by }));
    const aborting = new AbortController();
    running.value = new Map(running.value).set(key, aborting);
    const { deployments, isColoured } = world;
    const body = {
      ...bodyOf(fields.value, column, messagesOf(path, fields.value.system)),
      ...streamed(isColoured),
    };
    const onChange = (next: Answer) => setTree(key, withAnswer(treeOf(key), id, next));
    const model = (isMissing: boolean) => servedModel(column, deployments, isMissing);
    await ask(body, { signal: aborting.signal, onChange, model });
    const rest = new Map(running.value);
    if (rest.get(key) === aborting) rest.delete(key);
    running.value = rest;
    onSettled();
  }

  /** A call without a result is answered with an empty one, because templates expect a result. */
  function closeCalls(key: string) {
    for (const { id, name } of openCalls(pathOf(treeOf(key)))) addResult(key, { call: id, name, text: "" });
  }

  function addResult(key: string, result: Pick<ResultTurn, "call" | "name" | "text">) {
    const parent = pathOf(treeOf(key)).at(-1)?.id ?? null;
    setTree(key, add(treeOf(key), { id: newId(), parent, role: "tool", ...result }));
  }

  /** The other results of the same answer are kept beside the changed one. */
  function changeResult(key: string, changed: ResultTurn, text: string) {
    const path = pathOf(treeOf(key));
    const from = path.findIndex(({ id }) => id === changed.id);
    let parent = changed.parent;
    for (const turn of path.slice(from)) {
      if (turn.role !== "tool") break;
      const copy = { ...turn, id: newId(), parent, text: turn.id === changed.id ? text : turn.text };
      setTree(key, add(treeOf(key), copy));
      parent = copy.id;
    }
    void answer(key);
  }

  return {
    fields,
    draft,
    trees,
    running,
    saved,
    treeOf,
    /** The deployments that answer at once, by the key of the column. */
    hosts,
    setHost(key: string, host: string | undefined) {
      if (hosts.value.get(key) !== host) hosts.value = new Map(hosts.value).set(key, host);
    },
    /** Called when a column is drawn: its answers have its name, also in another column. */
    name: (key: string, title: string) => void titles.set(key, title),
    /** The first turns of all columns. A conversation that was left has its own. */
    begin(keys: readonly string[], given: Tree) {
      if (given.turns.size > 0) trees.value = new Map(keys.map((key) => [key, given]));
    },
    /** Called when the page is drawn. */
    see(next: World, settled: () => void) {
      world = next;
      onSettled = settled;
    },

    /** Sends what is typed to all columns. False: there is nothing, or an answer is still under way. */
    send(): boolean {
      const { text, images } = draft.value;
      if ((text.trim() === "" && images.length === 0) || running.value.size > 0 || world.columns.length === 0)
        return false;
      const id = newId();
      for (const key of world.columns.map(keyOf)) {
        closeCalls(key);
        const parent = pathOf(treeOf(key)).at(-1)?.id ?? null;
        setTree(key, add(treeOf(key), { id, parent, role: "user", text, images }));
        void answer(key);
      }
      draft.value = NO_DRAFT;
      return true;
    },

    /** True if something was said that only this page has. */
    isUnsaved: () => saved.value === undefined && [...trees.value.values()].some(({ turns }) => turns.size > 0),

    /** Answers the last turn of a column. */
    answer: (key: string) => void answer(key),
    stop() {
      for (const aborting of running.value.values()) aborting.abort();
    },

    /** Another answer beside this one. An answer that failed before its first word is replaced. */
    regenerate(key: string, id: string) {
      const turn = treeOf(key).turns.get(id);
      if (turn?.role !== "assistant" || isUnderWay(turn.answer) || running.value.has(key)) return;
      const { text, calls } = turn.answer;
      if (text === "" && calls.length === 0) setTree(key, remove(treeOf(key), id));
      void answer(key, turn.parent ?? undefined);
    },

    /** A changed turn stands beside the old one. A changed message is answered in every column that has it. */
    edit(key: string, id: string, { text, images }: Draft) {
      const turn = treeOf(key).turns.get(id);
      if (!turn || running.value.size > 0) return;
      const next = newId();
      if (turn.role === "assistant") {
        const kept = doneAnswer({ text, thinking: turn.answer.thinking, calls: turn.answer.calls });
        setTree(key, add(treeOf(key), { ...turn, id: next, answer: kept }));
        return onSettled();
      }
      if (turn.role === "tool") return changeResult(key, turn, text);
      for (const column of world.columns.map(keyOf)) {
        const same = treeOf(column).turns.get(id);
        if (same?.role !== "user" && same?.role !== "system") continue;
        setTree(column, add(treeOf(column), { ...same, id: next, text, images }));
        void answer(column);
      }
    },

    /** Results of the open calls, in their order. */
    giveResults(key: string, texts: ReadonlyMap<string, string>) {
      for (const { id, name } of openCalls(pathOf(treeOf(key))))
        addResult(key, { call: id, name, text: texts.get(id) ?? "" });
      void answer(key);
    },

    choose(key: string, id: string) {
      setTree(key, choose(treeOf(key), id));
      onSettled();
    },

    /** A new column takes the conversation of another, down to the last question, and answers it. */
    takeOver(from: string, to: string) {
      setTree(to, copied(treeOf(from)));
      void answer(to);
    },

    /** Another model goes on with the conversation of a column. */
    move(from: string, to: string) {
      const next = new Map([...trees.value].map(([key, tree]) => [key === from ? to : key, tree]));
      trees.value = next;
    },

    forget(key: string) {
      running.value.get(key)?.abort();
      const next = new Map(trees.value);
      next.delete(key);
      trees.value = next;
    },

    /** From now on the conversation is stored. Its name is how it begins. */
    keep() {
      const turns = [...trees.value.values()].flatMap((tree) => [...tree.turns.values()]);
      const first = turns.find(({ role }) => role === "user");
      const text = first?.role === "user" ? first.text : "";
      const name = text.replaceAll(/\s+/g, " ").trim().slice(0, LONGEST_NAME) || "Conversation";
      saved.value ??= { group: newId(), name, parts: new Map() };
    },

    renamed(group: string, name: string) {
      if (saved.value?.group === group) saved.value = { ...saved.value, name };
    },

    /** A stored conversation instead of what is shown. */
    show(opened: { saved: Saved; trees: ReadonlyMap<string, Tree>; fields: Partial<Fields> }) {
      for (const aborting of running.value.values()) aborting.abort();
      running.value = new Map();
      trees.value = opened.trees;
      saved.value = opened.saved;
      fields.value = { ...DEFAULTS, ...opened.fields };
      draft.value = NO_DRAFT;
    },
  };
}
