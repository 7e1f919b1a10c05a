/** Divides files into parts that share no source, or, if there are few sources, no file. Pure and always the same. */
export type Grouped = { isAi: boolean; source: string; hash: string };

/** With fewer sources of a label than this, files are divided one by one. */
const LEAST_SOURCES = 4;

export const canDivideBySource = (files: readonly Grouped[]): boolean =>
  [true, false].every(
    (label) => new Set(files.flatMap(({ isAi, source }) => (isAi === label ? [source] : []))).size >= LEAST_SOURCES,
  );

/**
 * The number of the part of each file. Equal files, and files of a source that has both labels, are never divided.
 * Large groups come first, each into the part with the fewest files of its labels.
 */
export function divide(files: readonly Grouped[], parts: number, bySource: boolean): number[] {
  const keyOf = ({ source, hash }: Grouped) => (bySource ? source : hash);
  const groups = [...Map.groupBy(files, keyOf)].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
  const counts = Array.from({ length: parts }, () => ({ ai: 0, real: 0 }));
  const partOf = new Map<string, number>();
  for (const [key, members] of groups) {
    const ai = members.filter(({ isAi }) => isAi).length;
    const real = members.length - ai;
    const load = (part: number) => ai * counts[part]!.ai + real * counts[part]!.real;
    const best = counts.map((_, part) => part).reduce((a, b) => (load(b) < load(a) ? b : a));
    partOf.set(key, best);
    counts[best]!.ai += ai;
    counts[best]!.real += real;
  }
  return files.map((file) => partOf.get(keyOf(file))!);
}
