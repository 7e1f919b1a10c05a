import type { Client } from "./client.ts";

type Page<T> = { data: T[]; has_more: boolean };

/** All items of a paged list of the server. */
export async function listAll<T>(client: Client, path: string, cursorOf: (item: T) => string): Promise<T[]> {
  const found: T[] = [];
  for (;;) {
    const last = found.at(-1);
    const query = new URLSearchParams({ limit: "100", ...(last === undefined ? {} : { after: cursorOf(last) }) });
    const { body } = await client.call<Page<T>>("GET", `${path}${path.includes("?") ? "&" : "?"}${query}`);
    found.push(...body.data);
    if (!body.has_more || body.data.length === 0) return found;
  }
}
