/** Loads a rollout and its turns. */
import { useState } from "preact/hooks";
import { type Page, useResource, useResources } from "../../data/resource.ts";
import type { Rollout, Turn } from "./types.ts";

const PER_PAGE = 50;
const EVERY_MS = 3_000;

/** A rollout with its turns: the first pages, and more on demand. Both follow an agent that still works. */
export function useRollout(id: string) {
  const [pages, setPages] = useState(1);
  const path = `/v1/rollouts/${encodeURIComponent(id)}`;
  const rollout = useResource<Rollout>(id === "" ? null : path, { events: ["rollout."], everyMs: EVERY_MS });
  const isOpen = rollout.data?.status === "open";
  const isThere = rollout.data !== undefined;
  const paths = Array.from(
    { length: isThere ? pages : 0 },
    (_, i) => `${path}/turns?limit=${PER_PAGE}&after=${i * PER_PAGE}`,
  );
  const { parts } = useResources<Page<Turn>>(paths, { events: ["rollout."], everyMs: isOpen ? EVERY_MS : undefined });
  const loaded = parts[0]?.data !== undefined;
  const error = rollout.error ?? parts.find((part) => part.error)?.error;
  const turns = parts.flatMap(({ data }) => data?.data ?? []);
  return {
    data: rollout.data && loaded ? { rollout: rollout.data, turns } : undefined,
    error,
    refresh: rollout.refresh,
    hasMore: parts.at(-1)?.data?.has_more === true,
    more: async () => setPages(pages + 1),
  };
}
export type Whole = { rollout: Rollout; turns: readonly Turn[] };
