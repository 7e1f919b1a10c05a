/** The event feed of the workspace: one stream for the whole page. It tells mounted data when to load again. */
import { signal } from "@preact/signals";
import { type Connection, follow } from "./follow.ts";

/** `refused`: the key may not read the feed, so data is polled instead. */
export const connection = signal<Connection>("connecting");

export type FeedEvent = { id: string; type: string; data: Record<string, unknown> };
type Listener = { prefixes: readonly string[]; call: (event: FeedEvent | undefined) => void };

const listeners = new Set<Listener>();
const POLL_MS = 5_000;
let stop: (() => void) | undefined;

/**
 * Calls back for each event whose type begins with one of `prefixes`, such as `job.`. Called with undefined when events
 * may have been missed: load everything again.
 */
export function onEvent(prefixes: readonly string[], call: Listener["call"]): () => void {
  const listener = { prefixes, call };
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Called by the shell when a session begins. */
export function startFeed() {
  stop?.();
  let wasLost = false;
  const end = follow("/v1/events?stream=1", {
    onMessage: ({ id, data }) => {
      if (data === "") return;
      const event = { ...(JSON.parse(data) as Omit<FeedEvent, "id">), id: id ?? "" };
      for (const { prefixes, call } of listeners)
        if (prefixes.some((prefix) => event.type.startsWith(prefix))) call(event);
    },
    onState: (state) => {
      connection.value = state;
      if (state === "live" && wasLost) reloadAll();
      if (state === "lost" || state === "live") wasLost = state === "lost";
    },
  });
  const poll = setInterval(() => {
    if (connection.value === "refused" && !document.hidden) reloadAll();
  }, POLL_MS);
  stop = () => {
    end();
    clearInterval(poll);
    stop = undefined;
  };
}

export const stopFeed = () => stop?.();

function reloadAll() {
  for (const { call } of listeners) call(undefined);
}
