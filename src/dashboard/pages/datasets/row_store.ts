/** Rows by place, loaded in windows as they come into view. Windows that scrolled past are never requested. */

import { signal } from "@preact/signals";
import { errorText } from "../../../lib/error_text.ts";
import type { RowList, StreamRow } from "../../../resources/data/datasets/schema.ts";
import { api } from "../../data/api.ts";

const WINDOW = 100;
const MOST_WINDOWS = 80;
const MOST_UNDER_WAY = 3;

/** `null`: the place has no live row. */
type Window = Map<number, StreamRow | null>;

export const placeOf = ({ row_id, target_row_id }: StreamRow) => target_row_id ?? row_id;

export function createRowStore(datasetId: string, snapshot: string | undefined, head: number) {
  const windows = new Map<number, Window>();
  const underWay = new Set<number>();
  const error = signal<string | undefined>(undefined);
  /** Grows with each loaded window: a component that reads it is drawn again. */
  const version = signal(0);
  let wanted: number[] = [];

  async function load(number: number) {
    underWay.add(number);
    try {
      const loaded = await readWindow(number * WINDOW + 1, Math.min(head, (number + 1) * WINDOW));
      windows.set(number, loaded);
      if (windows.size > MOST_WINDOWS) windows.delete(windows.keys().next().value ?? 0);
      error.value = undefined;
      version.value++;
    } catch (cause) {
      error.value = errorText(cause);
      wanted = [];
    }
    underWay.delete(number);
    next();
  }

  async function readWindow(first: number, last: number): Promise<Window> {
    const rows: Window = new Map();
    for (let from = first; from <= last; ) {
      const pinned = snapshot === undefined ? "live=1" : `snapshot=${encodeURIComponent(snapshot)}`;
      const page = await api<RowList>(
        `/v1/datasets/${datasetId}/rows?${pinned}&from_row=${from}&limit=${last - from + 1}`,
      );
      for (const row of page.data) if (placeOf(row) <= last) rows.set(placeOf(row), row);
      const end = page.data.at(-1);
      // A page of large rows is shorter than the window.
      from = end && page.has_more ? placeOf(end) + 1 : last + 1;
    }
    for (let place = first; place <= last; place++) if (!rows.has(place)) rows.set(place, null);
    return rows;
  }

  function next() {
    for (const number of wanted)
      if (underWay.size < MOST_UNDER_WAY && !windows.has(number) && !underWay.has(number)) void load(number);
  }

  return {
    version,
    error,
    /** Undefined: not loaded yet. `place` counts from 1. */
    rowAt: (place: number): StreamRow | null | undefined => windows.get(Math.floor((place - 1) / WINDOW))?.get(place),
    /** The rows in view. Only the newest call counts. */
    want(first: number, count: number) {
      const [low, high] = [Math.floor(first / WINDOW), Math.floor((first + count - 1) / WINDOW)];
      wanted = Array.from({ length: high - low + 1 }, (_, i) => low + i);
      next();
    },
  };
}
