/** Charts that the reader has pinned or hidden, for all runs. Pure, but for where it is kept. */
import { keep, readKept } from "../../../data/kept.ts";

/** Titles of charts. `pinned` is in order. */
export type Arrangement = { pinned: readonly string[]; hidden: readonly string[] };

const NAME = "runs.charts";

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];

export const arrangementOf = (value: unknown): Arrangement =>
  typeof value === "object" && value !== null
    ? { pinned: texts("pinned" in value && value.pinned), hidden: texts("hidden" in value && value.hidden) }
    : { pinned: [], hidden: [] };

/** A signal read. */
export const arrangement = (): Arrangement => readKept(NAME, arrangementOf);
export const arrange = (next: Arrangement) => keep(NAME, next);

const toggled = (list: readonly string[], title: string) =>
  list.includes(title) ? list.filter((each) => each !== title) : [...list, title];

/** A chart that is pinned is not hidden. */
export const pin = ({ pinned, hidden }: Arrangement, title: string): Arrangement => ({
  pinned: toggled(pinned, title),
  hidden: hidden.filter((each) => each !== title),
});
export const hide = ({ pinned, hidden }: Arrangement, title: string): Arrangement => ({
  pinned: pinned.filter((each) => each !== title),
  hidden: toggled(hidden, title),
});
