/** The previous answer to the same prompt: the nearest earlier step that has a sample of it. */
import { useEffect, useState } from "preact/hooks";
import { api } from "../../../data/api.ts";
import type { Page } from "../../../data/resource.ts";
import { type JobSample, jobPath } from "../types.ts";

const MOST_KEPT = 2_000;

const kept = new Map<string, Promise<readonly JobSample[]>>();

/** Samples of a step never change once it is done, so they are kept. An empty answer is not: the step may come. */
export function samplesOf(id: string, step: number): Promise<readonly JobSample[]> {
  const key = `${id} ${step}`;
  const stored = kept.get(key);
  if (stored) return stored;
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

const MOST_ANSWERS = 32; // to one prompt in one step

/** The best answer of the newest step, from answers to one prompt, newest first. */
export function previousOf(answers: readonly JobSample[]): JobSample | undefined {
  const score = ({ reward }: JobSample) => reward ?? Number.NEGATIVE_INFINITY;
  return answers
    .filter(({ step }) => step === answers[0]?.step)
    .reduce<JobSample | undefined>((best, each) => (best && score(best) >= score(each) ? best : each), undefined);
}

type AnswerByPrompt = ReadonlyMap<string, JobSample>;

/** One request for each prompt of the step. */
async function earlierOf(id: string, samples: readonly JobSample[]): Promise<AnswerByPrompt> {
  const prompts = new Map(samples.map((sample) => [promptKey(sample), sample]));
  const answers = await Promise.all(
    [...prompts].map(async ([prompt, { id: sample }]) => {
      const path = `${jobPath(id)}/samples?earlier_than=${sample}&limit=${MOST_ANSWERS}`;
      const previous = previousOf((await api<Page<JobSample>>(path)).data);
      return previous ? [[prompt, previous] as const] : [];
    }),
  );
  return new Map(answers.flat());
}

const NOTHING: AnswerByPrompt = new Map();

/** The earlier answers by prompt. `isDone`: the search has ended. */
export function useEarlier(id: string, samples: readonly JobSample[] | undefined) {
  const [state, setState] = useState<{ of: string; found: AnswerByPrompt }>();
  const step = samples?.[0]?.step ?? 0; // not of the slider: it moves before its samples are there
  const of = `${id} ${step}`;
  useEffect(() => {
    if (!samples || samples.length === 0) return;
    let isLeft = false;
    earlierOf(id, samples).then(
      (found) => isLeft || setState({ of, found }),
      () => undefined, // nothing is said about earlier answers then
    );
    return () => {
      isLeft = true;
    };
  }, [of]);
  return state?.of === of ? { found: state.found, isDone: true } : { found: NOTHING, isDone: false };
}
