/** The previous answer to the same prompt: the nearest earlier step that has a sample of it. */
import { useEffect, useState } from "preact/hooks";
import { api } from "../../../data/api.ts";
import type { Page } from "../../../data/resource.ts";
import { type JobSample, jobPath } from "../types.ts";

/** Steps to look back, and requests at once. */
export const LOOK_BACK = 96;
const AT_ONCE = 8;
const MOST_KEPT = 2_000;

const kept = new Map<string, Promise<readonly JobSample[]>>();

/** Samples of a step never change once it is done, so they are kept. An empty answer is not: the step may come. */
export function samplesOf(id: string, step: number): Promise<readonly JobSample[]> {
  const key = `${id} ${step}`;
  const known = kept.get(key);
  if (known) return known;
  if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value ?? "");
  const read = api<Page<JobSample>>(`${jobPath(id)}/samples?step=${step}&limit=100`).then(({ data }) => data);
  kept.set(key, read);
  read.then(
    (data) => data.length === 0 && kept.delete(key),
    () => kept.delete(key),
  );
  return read;
}

export const byAdvantage = (samples: readonly JobSample[]): JobSample[] =>
  samples.toSorted((a, b) => (b.advantage ?? Number.NEGATIVE_INFINITY) - (a.advantage ?? Number.NEGATIVE_INFINITY));

export const promptKey = ({ prompt }: Pick<JobSample, "prompt">): string => JSON.stringify(prompt);

/** The answer with the highest reward among those to this prompt. */
export function bestOf(samples: readonly JobSample[], prompt: string): JobSample | undefined {
  const same = samples.filter((sample) => promptKey(sample) === prompt);
  const score = ({ reward }: JobSample) => reward ?? Number.NEGATIVE_INFINITY;
  return same.reduce<JobSample | undefined>(
    (best, each) => (best && score(best) >= score(each) ? best : each),
    undefined,
  );
}

type Read = (step: number) => Promise<readonly JobSample[]>;

/** Looks backwards from `step` until every prompt was found. `onFound` is called after each batch of steps. */
export async function lookBack(
  {
    step,
    prompts,
    read,
    isStopped,
  }: { step: number; prompts: ReadonlySet<string>; read: Read; isStopped: () => boolean },
  onFound: (found: ReadonlyMap<string, JobSample>) => void,
) {
  const found = new Map<string, JobSample>();
  const oldest = Math.max(1, step - LOOK_BACK);
  for (let from = step - 1; from >= oldest && found.size < prompts.size; from -= AT_ONCE) {
    const steps = Array.from({ length: Math.min(AT_ONCE, from - oldest + 1) }, (_, i) => from - i);
    const batches = await Promise.all(steps.map(read));
    if (isStopped()) return;
    for (const samples of batches)
      for (const prompt of prompts) {
        const best = found.has(prompt) ? undefined : bestOf(samples, prompt);
        if (best) found.set(prompt, best);
      }
    onFound(new Map(found));
  }
}

/** The earlier answers by prompt. `isDone`: the search has ended. */
export function useEarlier(id: string, samples: readonly JobSample[] | undefined) {
  const [state, setState] = useState<{ of: string; found: ReadonlyMap<string, JobSample>; isDone: boolean }>();
  const step = samples?.[0]?.step ?? 0; // not of the slider: it moves before its samples are there
  const of = `${id} ${step}`;
  useEffect(() => {
    if (!samples || samples.length === 0) return;
    let isStopped = false;
    const prompts = new Set(samples.map(promptKey));
    let last: ReadonlyMap<string, JobSample> = new Map();
    const search = { step, prompts, read: (at: number) => samplesOf(id, at), isStopped: () => isStopped };
    lookBack(search, (found) => {
      last = found;
      setState({ of, found, isDone: false });
    }).then(
      () => isStopped || setState({ of, found: last, isDone: true }),
      () => isStopped || setState({ of, found: last, isDone: true }),
    );
    return () => {
      isStopped = true;
    };
  }, [of]);
  return state?.of === of ? state : { found: new Map<string, JobSample>(), isDone: false };
}
