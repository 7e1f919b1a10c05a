import type { Examples } from "../data/examples.ts";

/** Picks at most `most` examples, evenly spread, and always the same ones. */
export function spread<T>({ count, get }: Examples<T>, most: number): T[] {
  const taken = Math.min(count, most);
  return Array.from({ length: taken }, (_, i) => get(Math.floor((i * count) / taken)));
}

export function leftOutWords({ leftOut, count }: Examples<unknown>, why: string): string | null {
  if (leftOut === 0) return null;
  return `${leftOut} ${leftOut === 1 ? "row is" : "rows are"} not used: ${why}. ${count} ${count === 1 ? "is" : "are"} trained on`;
}
