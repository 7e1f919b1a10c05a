import { UsageError } from "../lib/errors.ts";
import type { Client } from "./client.ts";

type Page<T> = { data: T[]; has_more: boolean };

/** All items of a paged list of the server. */
export async function listAll<T>(client: Client, path: string, cursorOf: (item: T) => string): Promise<T[]> {
  const items: T[] = [];
  for (;;) {
    const last = items.at(-1);
    const query = new URLSearchParams({ limit: "100", ...(last === undefined ? {} : { after: cursorOf(last) }) });
    const { body } = await client.call<Page<T>>("GET", `${path}${path.includes("?") ? "&" : "?"}${query}`);
    items.push(...body.data);
    if (!body.has_more || body.data.length === 0) return items;
  }
}

/** The only item of a name, or undefined if no item has it. Of several it takes none: it names their ids. */
export function onlyOne<T extends { id: string }>(items: readonly T[], what: string, name: string): T | undefined {
  if (items.length < 2) return items[0];
  const ids = items.map(({ id }) => id);
  const more = ids.length > MOST_IDS ? ` and ${ids.length - MOST_IDS} more` : "";
  throw new UsageError(
    `${ids.length} ${what} are named ${JSON.stringify(name)}. Give one of their ids instead: ${ids.slice(0, MOST_IDS).join(", ")}${more}`,
  );
}

const MOST_IDS = 10;

/** The whole id for the beginning of one, as a table shows it. An unknown id stays as it is. */
export async function wholeId(text: string, list: () => Promise<readonly { id: string }[]>): Promise<string> {
  if (!/^[a-z]+_[0-9a-z]{8,25}$/.test(text)) return text;
  const [match, another] = (await list()).filter(({ id }) => id.startsWith(text));
  if (another) throw new UsageError(`${text} is the beginning of several ids. Give more of it, or the name.`);
  return match?.id ?? text;
}
