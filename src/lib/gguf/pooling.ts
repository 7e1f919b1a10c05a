/**
 * How the states of a text's tokens become its embedding, in the order of the numbers in `ARCHITECTURE.pooling_type`:
 * their mean, the first, the last. `rank` is the score of a pair of texts.
 */
export const POOLINGS = ["none", "mean", "cls", "last", "rank"] as const;
export type Pooling = (typeof POOLINGS)[number];

/** `given`: the number in the file, if there is one. A file that names no pooling gets the mean. */
export function poolingNamed(given: number | undefined): Exclude<Pooling, "none"> {
  const name = POOLINGS[given ?? 0];
  return name === undefined || name === "none" ? "mean" : name;
}
