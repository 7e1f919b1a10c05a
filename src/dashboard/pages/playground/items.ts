/** Turns as items of a stored conversation, and items as turns. Pure. */
import { type Answer, doneAnswer } from "./answer.ts";
import { add, EMPTY_TREE, reveal, type Tree, type Turn } from "./tree.ts";

type Part = { type: string; text?: string; image_url?: string | null };
export type NewItem = { type: string; parent_id?: string | null; model?: string } & Record<string, unknown>;

export type StoredItem = {
  id: string;
  type: string;
  parent_id: string | null;
  model?: string | null;
  role?: string;
  content?: readonly Part[] | null;
  call_id?: string;
  name?: string;
  arguments?: string;
  output?: unknown;
};

const MOST_NAME = 200; // characters of the name of a model

const inputText = (text: string) => ({ type: "input_text", text });

/** One turn is a chain of items. Empty: there is nothing to keep. */
export function itemsOf(turn: Turn): NewItem[] {
  if (turn.role === "tool") return [{ type: "function_call_output", call_id: turn.call, output: turn.text }];
  if (turn.role !== "assistant") {
    const images = turn.images.map((url) => ({ type: "input_image", image_url: url }));
    const content = [...images, ...(turn.text === "" ? [] : [inputText(turn.text)])];
    return content.length === 0 ? [] : [{ type: "message", role: turn.role, content }];
  }
  const { text, thinking, calls } = turn.answer;
  const by = turn.by ? { model: turn.by.slice(0, MOST_NAME) } : {};
  const said = text === "" ? [] : [{ type: "message", role: "assistant", content: text, ...by }];
  const called = calls.map(({ id, name, text: args }) => ({
    type: "function_call",
    call_id: id,
    name,
    arguments: args,
    ...by,
  }));
  if (said.length + called.length === 0) return [];
  const thought =
    thinking === "" ? [] : [{ type: "reasoning", content: [{ type: "reasoning_text", text: thinking }], ...by }];
  return [...thought, ...said, ...called];
}

export const systemItem = (text: string): NewItem => ({
  type: "message",
  role: "system",
  parent_id: null,
  content: [inputText(text)],
});

export type Opened = {
  tree: Tree;
  /** The newest system message at a root. */
  system: { id: string; text: string } | undefined;
  /** The last item of each turn: the parent of the items of its children. */
  lastItems: Map<string, string>;
};

/** `leaf`: the item at the end of the branch that was shown; else the newest one is. */
export function openItems(items: readonly StoredItem[], leaf?: string | undefined): Opened {
  const byId = new Map(items.map((item) => [item.id, item]));
  const children = new Map<string, number>();
  for (const { parent_id: parent } of items) if (parent) children.set(parent, (children.get(parent) ?? 0) + 1);
  const turnOf = new Map<string, string>(); // by item
  const lastItems = new Map<string, string>();
  const names = new Map<string, string>(); // of called tools
  let tree = EMPTY_TREE;
  let system: Opened["system"];
  for (const item of items) {
    const above = item.parent_id === null ? undefined : byId.get(item.parent_id);
    if (isSystemRoot(item)) {
      system = { id: item.id, text: textOf(item) };
      continue;
    }
    if (item.call_id !== undefined && item.name !== undefined) names.set(item.call_id, item.name);
    const of = above === undefined || isSystemRoot(above) ? null : (turnOf.get(above.id) ?? null);
    const previous = of === null ? undefined : tree.turns.get(of);
    const joins = above !== undefined && children.get(above.id) === 1 && follows(above, item);
    const turn =
      joins && previous?.role === "assistant"
        ? { ...previous, answer: joined(previous.answer, item) }
        : newTurn(item, of, names);
    if (!turn) continue;
    tree = add(tree, turn);
    turnOf.set(item.id, turn.id);
    lastItems.set(turn.id, item.id);
  }
  const shown = turnOf.get(leaf ?? items.at(-1)?.id ?? "");
  return { tree: shown === undefined ? tree : reveal(tree, shown), system, lastItems };
}

const isSystemRoot = ({ parent_id: parent, role }: StoredItem): boolean =>
  parent === null && (role === "system" || role === "developer");

/** The parts of one answer, in their order. */
const ORDER = ["reasoning", "message", "function_call"];
const isOfAnswer = ({ type, role }: StoredItem) => ORDER.includes(type) && (type !== "message" || role === "assistant");
const follows = (above: StoredItem, item: StoredItem): boolean =>
  isOfAnswer(above) &&
  isOfAnswer(item) &&
  (ORDER.indexOf(above.type) < ORDER.indexOf(item.type) ||
    (above.type === "function_call" && item.type === above.type));

function newTurn(item: StoredItem, parent: string | null, names: ReadonlyMap<string, string>): Turn | undefined {
  const { id, type, role } = item;
  if (isOfAnswer(item))
    return { id, parent, role: "assistant", answer: joined(doneAnswer({}), item), by: item.model ?? undefined };
  if (type === "function_call_output") {
    const call = item.call_id ?? "";
    const text = typeof item.output === "string" ? item.output : JSON.stringify(item.output ?? "");
    return { id, parent, role: "tool", call, name: names.get(call) ?? "tool", text };
  }
  if (type !== "message") return undefined;
  const images = (item.content ?? []).flatMap(({ image_url: url }) => (url?.startsWith("data:image/") ? [url] : []));
  return { id, parent, role: role === "user" ? "user" : "system", text: textOf(item), images };
}

function joined(answer: Answer, item: StoredItem): Answer {
  if (item.type === "reasoning") return { ...answer, thinking: answer.thinking + textOf(item) };
  if (item.type === "message") return { ...answer, text: answer.text + textOf(item) };
  const { call_id: id = "", name = "", arguments: text = "" } = item;
  return { ...answer, calls: [...answer.calls, { id, name, text }] };
}

const textOf = ({ content }: StoredItem): string => (content ?? []).map(({ text }) => text ?? "").join("");
