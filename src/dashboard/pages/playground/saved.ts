/** Conversations on the server. One with several columns is a group: each column is a conversation of its own. */
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { isUnderWay } from "./answer.ts";
import { itemsOf, type NewItem, openItems, type StoredItem, systemItem } from "./items.ts";
import { DEFAULTS, type Fields } from "./request.ts";
import { above, endOf, type Tree } from "./tree.ts";

export const CONVERSATIONS = "/v1/conversations?limit=100";

export type Conversation = {
  id: string;
  name: string | null;
  created_at: number;
  updated_at: number;
  item_count: number;
  metadata: Record<string, string>;
};

/** `ids`: the last stored item of each turn. */
type Part = { id: string; ids: Map<string, string>; system: { id: string; text: string } | undefined };
export type Saved = { group: string; name: string; parts: Map<string, Part> };

const KEYS = { column: "playground_column", group: "playground_group", leaf: "playground_leaf" } as const;
const SETTINGS = "playground_settings_";
const VALUE = 512; // characters of a value of metadata
const MOST_PARTS = 12; // of the settings

/** Long settings are cut into values of metadata. Settings that do not fit are not kept: undefined. */
function settingsOf(fields: Fields): Record<string, string> | undefined {
  const changed = Object.entries(fields).filter(
    ([name, text]) => name !== "system" && text !== DEFAULTS[name as keyof Fields],
  );
  const text = changed.length === 0 ? "" : escaped(JSON.stringify(Object.fromEntries(changed)));
  const parts = Array.from({ length: Math.ceil(text.length / VALUE) }, (_, i) =>
    text.slice(i * VALUE, (i + 1) * VALUE),
  );
  if (parts.length > MOST_PARTS) return undefined;
  return Object.fromEntries(parts.map((part, i) => [`${SETTINGS}${i}`, part]));
}

export const areSettingsKept = (fields: Fields) => settingsOf(fields) !== undefined;

/** JSON without characters that a cut could split. */
const escaped = (json: string) =>
  json.replaceAll(/[^ -~]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

function fieldsOf(metadata: Readonly<Record<string, string>>): Partial<Fields> {
  let text = "";
  for (let i = 0; metadata[`${SETTINGS}${i}`] !== undefined; i++) text += metadata[`${SETTINGS}${i}`];
  try {
    const kept = JSON.parse(text) as Record<string, unknown>;
    return Object.fromEntries(
      Object.entries(kept).filter(([name, value]) => name in DEFAULTS && typeof value === "string"),
    );
  } catch {
    return {};
  }
}

const metadataOf = (key: string, group: string, fields: Fields, leaf: string | undefined) => ({
  [KEYS.column]: key.slice(0, VALUE),
  [KEYS.group]: group,
  ...(leaf === undefined ? {} : { [KEYS.leaf]: leaf }),
  ...settingsOf(fields),
});

const pathOf = (id: string) => `/v1/conversations/${encodeURIComponent(id)}`;

/** Stores what is not stored yet. Turns that are stored never change. */
export async function store(saved: Saved, trees: ReadonlyMap<string, Tree>, fields: Fields) {
  for (const [key, tree] of trees) {
    if (tree.turns.size === 0) continue;
    const part = saved.parts.get(key) ?? (await create(saved, key, fields));
    saved.parts.set(key, part);
    await storeSystem(part, fields.system);
    let isNew = false;
    for (const turn of tree.turns.values()) {
      if (part.ids.has(turn.id) || (turn.role === "assistant" && isUnderWay(turn.answer))) continue;
      const items = itemsOf(turn);
      const parent = parentOf(part, tree, turn.id);
      if (items.length === 0 || parent === undefined) continue;
      part.ids.set(turn.id, await append(part.id, items, parent));
      isNew = true;
    }
    const end = endOf(tree);
    const leaf = end && (part.ids.get(end.id) ?? parentOf(part, tree, end.id) ?? undefined);
    const body = { metadata: metadataOf(key, saved.group, fields, leaf) };
    if (isNew || leaf !== undefined) await api(pathOf(part.id), { method: "POST", body });
  }
  await reload(CONVERSATIONS);
}

async function create({ group, name }: Saved, key: string, fields: Fields): Promise<Part> {
  const body = { name, metadata: metadataOf(key, group, fields, undefined) };
  const { id } = await api<Conversation>("/v1/conversations", { method: "POST", body });
  return { id, ids: new Map(), system: undefined };
}

/** A changed system prompt is a new root: turns that follow are below it. */
async function storeSystem(part: Part, text: string) {
  if (text === (part.system?.text ?? "") || text === "") return;
  part.system = { id: await append(part.id, [systemItem(text)], null), text };
}

/** The item below which a turn is stored; null: at a root. An answer that was not kept is passed over. Undefined: not yet. */
function parentOf({ ids, system }: Part, tree: Tree, id: string): string | null | undefined {
  for (const turn of above(tree, id).reverse()) {
    const item = ids.get(turn.id);
    if (item !== undefined) return item;
    if (itemsOf(turn).length > 0) return undefined;
  }
  return system?.id ?? null;
}

async function append(id: string, [first, ...rest]: readonly NewItem[], parent: string | null): Promise<string> {
  const body = { items: [{ ...first, parent_id: parent }, ...rest] };
  const { data } = await api<{ data: StoredItem[] }>(`${pathOf(id)}/items`, { method: "POST", body });
  return data.at(-1)?.id ?? "";
}

/** One entry of the list. `key`: the conversations of a group have the same. */
export type Entry = { key: string; name: string | null; at: number; ids: string[] };

/** Conversations by groups, the newest first. */
export function entriesOf(conversations: readonly Conversation[]): Entry[] {
  const entries = new Map<string, Entry>();
  for (const { id, name, updated_at: at, metadata } of conversations) {
    const key = metadata[KEYS.group] ?? id;
    const entry = entries.get(key) ?? { key, name, at, ids: [] };
    entries.set(key, { key, name: entry.name ?? name, at: Math.max(at, entry.at), ids: [...entry.ids, id] });
  }
  return [...entries.values()].sort((a, b) => b.at - a.at);
}

export type Opened = {
  saved: Saved;
  /** By the key of the column. A conversation that another program made has the key "". */
  trees: Map<string, Tree>;
  fields: Partial<Fields>;
};

/** The entry of one conversation, with the others of its group. */
export async function entryOf(id: string): Promise<Entry | undefined> {
  const one = await api<Conversation>(pathOf(id));
  const { data } = await api<{ data: Conversation[] }>(CONVERSATIONS);
  const others = data.filter((each) => each.id !== id);
  return entriesOf([one, ...others]).find(({ ids }) => ids.includes(id));
}

export async function open({ key: group, name, ids }: Entry): Promise<Opened> {
  const saved: Saved = { group, name: name ?? "", parts: new Map() };
  const trees = new Map<string, Tree>();
  let fields: Partial<Fields> = {};
  for (const id of ids.toReversed()) {
    const { metadata } = await api<Conversation>(pathOf(id));
    const key = metadata[KEYS.column] ?? "";
    const { tree, system, lastItems } = openItems(await allItems(id), metadata[KEYS.leaf]);
    trees.set(key, tree);
    saved.parts.set(key, { id, ids: lastItems, system });
    fields = { system: system?.text ?? "", ...fieldsOf(metadata) };
  }
  return { saved, trees, fields };
}

async function allItems(id: string): Promise<StoredItem[]> {
  const items: StoredItem[] = [];
  for (let after = ""; ; ) {
    const more = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
    const page = await api<{ data: StoredItem[]; has_more: boolean }>(`${pathOf(id)}/items?order=asc&limit=100${more}`);
    items.push(...page.data);
    const last = page.data.at(-1);
    if (!page.has_more || !last) return items;
    after = last.id;
  }
}

export async function rename({ ids }: Entry, name: string) {
  for (const id of ids) await api(pathOf(id), { method: "POST", body: { name } });
  await reload(CONVERSATIONS);
}

export async function removeEntry({ ids }: Entry) {
  for (const id of ids) await api(pathOf(id), { method: "DELETE" });
  await reload(CONVERSATIONS);
}
