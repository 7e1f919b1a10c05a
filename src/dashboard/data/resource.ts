/** Data of the API in components: loaded once for all that show it, kept while it is loaded again. */
import { type Signal, signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import { ApiError, api } from "./api.ts";
import { onEvent } from "./events.ts";

export type Loaded<T> = { data: T | undefined; error: ApiError | undefined; loading: boolean };
export type Resource<T> = Loaded<T> & { refresh: () => Promise<void> };

export type ResourceOptions = {
  /** Types of events, by their beginning, after which the data is loaded again: `["job."]`. */
  events?: readonly string[] | undefined;
  /** For data that changes without events. Not while the tab is hidden. */
  everyMs?: number | undefined;
};

type Entry = { path: string; state: Signal<Loaded<unknown>>; at: number; under: Promise<void> | undefined };

const entries = new Map<string, Entry>();
const MOST_ENTRIES = 200;
const FRESH_MS = 1_000;
/** Events come in bursts: they cause at most one load in this time. */
const EVENT_PAUSE_MS = 250;

function entryOf(path: string): Entry {
  const kept = entries.get(path);
  if (kept) return kept;
  if (entries.size >= MOST_ENTRIES) entries.delete(entries.keys().next().value ?? "");
  const entry: Entry = {
    path,
    state: signal<Loaded<unknown>>({ data: undefined, error: undefined, loading: true }),
    at: Number.NEGATIVE_INFINITY,
    under: undefined,
  };
  entries.set(path, entry);
  return entry;
}

/** Loads now, or joins the load under way. */
export function load(path: string): Promise<void> {
  const entry = entryOf(path);
  entry.under ??= (async () => {
    entry.state.value = { ...entry.state.value, loading: true };
    try {
      entry.state.value = { data: await api<unknown>(path), error: undefined, loading: false };
    } catch (error) {
      const fault = error instanceof ApiError ? error : new ApiError(0, null, errorText(error));
      entry.state.value = { data: entry.state.value.data, error: fault, loading: false };
    }
    entry.at = performance.now();
    entry.under = undefined;
  })();
  return entry.under;
}

/** After a change: a load under way may have begun before it, and is followed by another. */
async function loadAgain(path: string): Promise<void> {
  await entries.get(path)?.under;
  if (entries.has(path) && !isRemoving(path)) await load(path); // not after a sign-out or a deletion
}

function poll({ path, state }: Entry) {
  const isGone = state.peek().error?.status === 404; // only an event can bring it back
  if (!document.hidden && !isGone && entries.has(path) && !isRemoving(path)) void load(path);
}

/** After a write: every loaded path that begins so is loaded again. */
export async function reload(prefix: string): Promise<void> {
  await Promise.all([...entries.keys()].filter((path) => path.startsWith(prefix)).map(loadAgain));
}

/**
 * Deletes the object at `path`, and forgets what was loaded of it. Nothing under `path` is loaded during the call: an
 * event of the deletion arrives before the answer, and a page that loads what is deleted gets 404.
 */
export async function deleteResource(path: string): Promise<unknown> {
  const loaded = () => [...entries].filter(([each]) => isWithin(each, path));
  removing.add(path);
  try {
    await Promise.all(loaded().map(([, { under }]) => under));
    const answer = await api<unknown>(path, { method: "DELETE" });
    for (const [each] of loaded()) entries.delete(each);
    return answer;
  } finally {
    removing.delete(path);
  }
}

const removing = new Set<string>();
const isWithin = (path: string, of: string) => path.startsWith(of) && /^([/?]|$)/.test(path.slice(of.length));
const isRemoving = (path: string) => [...removing].some((each) => isWithin(path, each));

/** On sign-out: nothing of one key may be shown to the next. */
export const forgetAll = () => entries.clear();

/** `path` null: nothing is loaded, for data that depends on other data. */
export function useResource<T>(path: string | null, options: ResourceOptions = {}): Resource<T> {
  const paths = path === null ? [] : [path];
  const [part = NOTHING] = useParts<T>(paths, options);
  return { ...part, refresh: () => loadAll(paths) };
}

/** True when each has its first answer. A page that draws them at once has nothing that comes late and moves the rest. */
export const areAnswered = (...loaded: readonly Loaded<unknown>[]) =>
  loaded.every(({ data, error, loading }) => data !== undefined || error !== undefined || !loading);

const NOTHING = { data: undefined, error: undefined, loading: false } as const;

export type Resources<T> = {
  /** One for each path. They change together: while one of them is loaded again, all stay as they were. */
  parts: readonly Loaded<T>[];
  refresh: () => Promise<void>;
};

type PartsOptions<T> = Omit<ResourceOptions, "everyMs"> & {
  /** The time between two loads may follow from what was loaded. Undefined: it is not loaded again. */
  everyMs?: number | undefined | ((parts: readonly Loaded<T>[]) => number | undefined);
};

/** Several objects of one kind, so that a page with charts is drawn once for all of them. */
export function useResources<T>(paths: readonly string[], options: PartsOptions<T> = {}): Resources<T> {
  const now = useParts<T>(paths, options);
  const key = keyOf(paths);
  const settled = useRef({ key, parts: now });
  if (settled.current.key !== key || !now.some(({ loading }) => loading)) settled.current = { key, parts: now };
  return { parts: settled.current.parts, refresh: () => loadAll(paths) };
}

const keyOf = (paths: readonly string[]) => paths.join("\n");
const loadAll = async (paths: readonly string[]) => void (await Promise.all(paths.map(load)));

/** The states of the paths as they are now. The list is a new one only if one of them is. */
function useParts<T>(paths: readonly string[], { events, everyMs }: PartsOptions<T>): readonly Loaded<T>[] {
  const key = keyOf(paths);
  const shown = useMemo(() => paths.map(entryOf), [key]);
  const now = shown.map(({ state }) => state.value as Loaded<T>);
  const parts = useMemo(() => now, now);
  const pauseMs = typeof everyMs === "function" ? everyMs(parts) : everyMs;
  const wanted = events?.join(" ");
  // before the paint: the request is under way meanwhile
  useLayoutEffect(() => watch(shown, { events: wanted?.split(" "), everyMs: pauseMs }), [key, wanted, pauseMs]);
  return parts;
}

/** Loads what is not fresh, and again after events and in intervals, until the returned function is called. */
function watch(shown: readonly Entry[], { events, everyMs }: ResourceOptions): () => void {
  const again = () => {
    for (const { path } of shown) void loadAgain(path);
  };
  for (const { path, at } of shown) if (performance.now() - at > FRESH_MS) void load(path);
  let waiting: ReturnType<typeof setTimeout> | undefined;
  const soon = () => {
    waiting ??= setTimeout(() => {
      waiting = undefined;
      again();
    }, EVENT_PAUSE_MS);
  };
  const leave = events === undefined ? undefined : onEvent(events, soon);
  const timer = everyMs === undefined ? undefined : setInterval(() => shown.forEach(poll), everyMs);
  return () => {
    leave?.();
    if (waiting !== undefined) again(); // the event still counts when only `everyMs` changes
    clearTimeout(waiting);
    clearInterval(timer);
  };
}

/** `next_after`: the place to go on, of lists whose pages may be empty. */
export type Page<T> = { data: T[]; has_more: boolean; next_after?: string | null };
export type List<T> = {
  items: T[] | undefined;
  error: ApiError | undefined;
  hasMore: boolean;
  loading: boolean;
  more: () => Promise<void>;
  refresh: () => Promise<void>;
};

const MOST_EMPTY_PAGES = 20; // about two seconds of a search

/** A list with a cursor. The first page stays live; `more` appends the next one. */
export function useList<T extends { id: string }>(path: string, options: ResourceOptions = {}): List<T> {
  const first = useResource<Page<T>>(path, options);
  const rest = useSignal<{ path: string; items: T[]; last: Page<T> } | undefined>(undefined);
  const tail = rest.value?.path === path ? rest.value : undefined;
  const firstIds = new Set(first.data?.data.map(({ id }) => id));
  const items = first.data && [...first.data.data, ...(tail?.items ?? []).filter(({ id }) => !firstIds.has(id))];
  const more = async () => {
    let after = (tail?.last ?? first.data)?.next_after ?? items?.at(-1)?.id;
    for (let pages = 0; after !== undefined && pages < MOST_EMPTY_PAGES; pages++) {
      const last: Page<T> = await api(`${path}${path.includes("?") ? "&" : "?"}after=${encodeURIComponent(after)}`);
      rest.value = { path, items: [...(tail?.items ?? []), ...last.data], last };
      after = last.data.length === 0 ? (last.next_after ?? undefined) : undefined;
    }
  };
  const { error, loading, refresh } = first;
  return { items, error, loading, refresh, more, hasMore: (tail?.last ?? first.data)?.has_more ?? false };
}
