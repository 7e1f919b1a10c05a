/** The samples that an exported run holds. Their number and their size are bounded. */
import { plural } from "../../../data/format.ts";
import type { JobSample } from "../types.ts";

export type StepSamples = readonly [step: number, samples: readonly JobSample[]];

/** Steps whose samples are in the file: evenly spread, with the first and the last. */
const MOST_STEPS = 24;

export function chosenSteps(last: number, most = MOST_STEPS): number[] {
  if (last <= most) return Array.from({ length: last }, (_, i) => i + 1);
  return Array.from({ length: most }, (_, i) => Math.round(1 + (i * (last - 1)) / (most - 1)));
}

/** Characters of one answer, and of all samples. Every sample is in the file twice: to read, and as data. */
const MOST_OF_ONE = 8_000;
const MOST_OF_ALL = 3_000_000;

/** Long answers are cut. Of each step the best and the worst samples stay, as many as fit. */
export function bounded(
  steps: readonly StepSamples[],
  most = MOST_OF_ALL,
): { samples: StepSamples[]; leftOut: string } {
  const room = most / Math.max(1, steps.length);
  let [cut, dropped] = [0, 0];
  const samples = steps.map(([step, all]): StepSamples => {
    const short = all.map((sample) => {
      if (sample.completion.length <= MOST_OF_ONE) return sample;
      cut++;
      const left = sample.completion.length - MOST_OF_ONE;
      return { ...sample, completion: `${sample.completion.slice(0, MOST_OF_ONE)}… (${left} characters left out)` };
    });
    const kept = fitting(short, room);
    dropped += short.length - kept.length;
    return [step, kept];
  });
  const parts = [
    ...(cut > 0 ? [`${plural(cut, "long answer")} cut`] : []),
    ...(dropped > 0 ? [`${plural(dropped, "sample")} left out`] : []),
  ];
  return { samples, leftOut: parts.length === 0 ? "" : `To keep this file small: ${parts.join(", ")}.` };
}

/** From both ends in turn until `room` is used up, in the order that they had. At least one. */
function fitting(samples: readonly JobSample[], room: number): JobSample[] {
  const order = samples.map((_, i) => (i % 2 === 0 ? i / 2 : samples.length - (i + 1) / 2));
  const kept = new Set<number>();
  let used = 0;
  for (const i of order) {
    used += JSON.stringify(samples[i]).length;
    if (used > room && kept.size > 0) break;
    kept.add(i);
  }
  return samples.filter((_, i) => kept.has(i));
}
