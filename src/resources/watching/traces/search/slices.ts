/** A list under filters is found in slices, so that one request neither takes long nor stops the others. */
import { takingTurns } from "../../../../lib/turns.ts";
import type { Position } from "./positions.ts";

const SLICE_MS = 4;
const GROWTH = 8; // a slice is at most so many times as large as the one before, or as small

export type Sizes = { least: number; most: number };

/** The size of the next slice: as much as takes about `SLICE_MS`, at the pace of the last slice. */
export function nextSize(size: number, ms: number, { least, most }: Sizes): number {
  const ratio = Math.min(GROWTH, Math.max(1 / GROWTH, SLICE_MS / Math.max(ms, Number.MIN_VALUE)));
  return Math.min(most, Math.max(least, Math.floor(size * ratio)));
}

/** `found` is in the order of the page. `reached`: nothing up to this place is left to read. Undefined: nothing at all. */
export type Step = { found: readonly Position[]; reached: Position | undefined };

/** `next`: the place after which the list goes on. Undefined: this was the rest. */
export type ListPage = { page: Position[]; next: Position | undefined };

/** A page of at most `limit`. If the time `until` passes first, it is short or empty, and `next` is the place reached. */
export async function collect(
  steps: Iterable<Step>,
  limit: number,
  until = Number.POSITIVE_INFINITY,
): Promise<ListPage> {
  const page: Position[] = [];
  const turn = takingTurns();
  for (const { found, reached } of steps) {
    page.push(...found);
    if (page.length > limit) return { page: page.slice(0, limit), next: page[limit - 1] };
    if (performance.now() > until && reached) return { page, next: reached };
    await turn();
  }
  return { page, next: undefined };
}
