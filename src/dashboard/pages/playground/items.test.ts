import { expect, test } from "bun:test";
import { doneAnswer } from "./answer.ts";
import { itemsOf, openItems, type StoredItem } from "./items.ts";
import { messagesOf } from "./sent.ts";
import { branchesOf, pathOf, type Turn } from "./tree.ts";

/** A server that keeps items: each gets an id, and the ones of a request are a chain. */
function storing() {
  const items: StoredItem[] = [];
  const put = (sent: readonly object[], parent: string | null): string => {
    let above = parent;
    for (const item of sent) {
      const id = `i${items.length + 1}`;
      const { content } = item as { content?: unknown };
      const parts = typeof content === "string" ? [{ type: "output_text", text: content }] : content;
      items.push({ ...item, ...(content === undefined ? {} : { content: parts }), id, parent_id: above } as StoredItem);
      above = id;
    }
    return above ?? "";
  };
  return { items, put };
}

const user = (text: string): Turn => ({ id: text, parent: null, role: "user", text, images: [] });
const answer = (said: Parameters<typeof doneAnswer>[0]): Turn => ({
  id: "a",
  parent: null,
  role: "assistant",
  answer: doneAnswer(said),
  by: "demo",
});

test("a stored conversation opens with its branches, thoughts, calls and results, below its system prompt", () => {
  const { items, put } = storing();
  const system = put([{ type: "message", role: "system", content: [{ type: "input_text", text: "Be brief." }] }], null);
  const q1 = put(itemsOf(user("one")), system);
  const calls = [1, 2].map((n) => ({ id: `c${n}`, name: "add", text: "{}" }));
  const a1 = put(itemsOf(answer({ thinking: "hm", text: "I add.", calls })), q1);
  const r1 = put(itemsOf({ id: "r", parent: null, role: "tool", call: "c1", name: "add", text: "3" }), a1);
  const end = put(itemsOf(answer({ text: "Three." })), r1);
  const other = put(itemsOf(answer({ text: "Other." })), q1);
  const opened = openItems(items, end);
  expect(opened.system).toEqual({ id: system, text: "Be brief." });
  const path = pathOf(opened.tree);
  expect(messagesOf(path, "")).toEqual([
    { role: "user", content: "one" },
    {
      role: "assistant",
      content: "I add.",
      reasoning_content: "hm",
      tool_calls: calls.map(({ id, name, text }) => ({ id, type: "function", function: { name, arguments: text } })),
    },
    { role: "tool", content: "3", tool_call_id: "c1", name: "add" },
    { role: "assistant", content: "Three." },
  ]);
  expect(path[1]).toMatchObject({ by: "demo" });
  expect(branchesOf(opened.tree, path[1]!.id).ids).toHaveLength(2);
  expect(opened.lastItems.get(path[1]!.id)).toBe(a1);
  expect(pathOf(openItems(items).tree)).toHaveLength(2); // the newest item ends the path
  expect(opened.lastItems.get(pathOf(openItems(items).tree)[1]!.id)).toBe(other);
});

test("two answers below the same thoughts, which another program stored, are branches", () => {
  const { items, put } = storing();
  const thought = put(
    [{ type: "reasoning", content: [{ type: "reasoning_text", text: "hm" }] }],
    put(itemsOf(user("one")), null),
  );
  for (const text of ["a", "b"]) put([{ type: "message", role: "assistant", content: text }], thought);
  const { tree } = openItems(items);
  expect(branchesOf(tree, pathOf(tree).at(-1)!.id)).toMatchObject({ at: 1, ids: { length: 2 } });
});

test("there is nothing to keep of an answer without a word", () => {
  expect(itemsOf(answer({ thinking: "hm" }))).toEqual([]);
  expect(itemsOf(user(""))).toEqual([]);
  expect(openItems([])).toMatchObject({ system: undefined });
});
