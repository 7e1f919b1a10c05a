/** Lineage: which runs read a dataset, and which of their samples came from one row. */

import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { api } from "../../data/api.ts";
import { spread } from "../../data/spread.ts";

export type Sample = ReturnType<
  typeof import("../../../resources/training/training_jobs/views/schema.ts").presentSample
>;
export type SampleOfRun = { job: TrainingJob; sample: Sample };

export const usesOf = (jobs: readonly TrainingJob[], datasetId: string): TrainingJob[] =>
  jobs.filter(({ dataset, eval_dataset }) => dataset?.id === datasetId || eval_dataset?.id === datasetId);

const MOST_RUNS = 5;
const MOST_STEPS = 24;

/** The API lists samples by step, so a spread of steps of the newest runs is read. */
export async function samplesOf(
  jobs: readonly TrainingJob[],
  prompt: unknown,
  { signal, report }: { signal: AbortSignal; report: (samples: readonly SampleOfRun[], read: number) => void },
): Promise<void> {
  const wanted = JSON.stringify(prompt);
  const samples: SampleOfRun[] = [];
  let read = 0;
  for (const job of jobs.slice(0, MOST_RUNS))
    for (const step of spread(job.progress.step, MOST_STEPS)) {
      const path = `/v1/training_jobs/${job.id}/samples?step=${step}&limit=100`;
      const { data } = await api<{ data: Sample[] }>(path, { signal });
      for (const sample of data) if (JSON.stringify(sample.prompt) === wanted) samples.push({ job, sample });
      report([...samples], ++read);
    }
}
