/** Old and new rewards of the same samples. */
export type Scored = { prompt: unknown; completion: string; old: number | null; now: number | null; error?: string };

export type Histogram = { edges: number[]; old: number[]; now: number[] };

/** Both histograms over the same bins. */
export function histogramOf(samples: readonly Scored[], bins = 12): Histogram {
  const all = samples.flatMap(({ old, now }) => [old, now]).filter((value) => value !== null);
  if (all.length === 0) return { edges: [], old: [], now: [] };
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const width = (high - low) / bins;
  const count = (values: readonly (number | null)[]) => {
    const counts = new Array<number>(bins).fill(0);
    for (const value of values)
      if (value !== null) {
        const bin = Math.min(bins - 1, Math.floor((value - low) / width));
        counts[bin] = (counts[bin] ?? 0) + 1;
      }
    return counts;
  };
  return {
    edges: Array.from({ length: bins + 1 }, (_, i) => low + i * width),
    old: count(samples.map(({ old }) => old)),
    now: count(samples.map(({ now }) => now)),
  };
}

export type Flip = { sample: Scored; from: number; to: number; of: number };

/** Answers to the same prompt. A step that keeps one answer for each prompt is one group. */
function groupsOf(samples: readonly Scored[]): Scored[][] {
  const groups = [...Map.groupBy(samples, ({ prompt }) => JSON.stringify(prompt)).values()];
  return groups.some(({ length }) => length > 1) ? groups : [[...samples]];
}

/** Samples whose rank in their group changes, the largest change first. Equal rewards share a rank. */
export function flipsOf(samples: readonly Scored[]): Flip[] {
  return groupsOf(samples.filter(({ old, now }) => old !== null && now !== null))
    .flatMap((group) =>
      group.map((sample) => {
        const rank = (key: "old" | "now") => 1 + group.filter((each) => (each[key] ?? 0) > (sample[key] ?? 0)).length;
        return { sample, from: rank("old"), to: rank("now"), of: group.length };
      }),
    )
    .filter(({ from, to }) => from !== to)
    .sort((a, b) => Math.abs(b.from - b.to) - Math.abs(a.from - a.to));
}

export const meanOf = (values: readonly (number | null)[]): number | null => {
  const numbers = values.filter((value) => value !== null);
  return numbers.length === 0 ? null : numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
};

/** Share of prompts whose answers all have the same reward: training learns nothing from them. */
export function sameShare(samples: readonly Scored[], key: "old" | "now"): number | null {
  const groups = [...Map.groupBy(samples, ({ prompt }) => JSON.stringify(prompt)).values()].filter((g) => g.length > 1);
  if (groups.length === 0) return null;
  return groups.filter((group) => new Set(group.map((each) => each[key])).size === 1).length / groups.length;
}
