/** Scores stored samples of a run with other code. Samples keep no columns, so the rows of the dataset supply them. */
import type { RowList } from "../../../resources/data/datasets/schema.ts";
import type { RewardRun } from "../../../resources/training/reward_functions/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { api } from "../../data/api.ts";
import type { Mark } from "../../kit/code/marks.ts";
import type { Scored } from "./compare.ts";

type Row = Readonly<Record<string, unknown>>;
export type Sample = ReturnType<
  typeof import("../../../resources/training/training_jobs/views/schema.ts").presentSample
>;
export type Code = { source: string; language: string | undefined };
export type Outcome = { scored: Scored[]; stdout: string; faults: RewardRun["results"]; withoutRow: number };

const keyOf = (prompt: unknown) => JSON.stringify(prompt ?? null);
const PAGES = 5;
const MOST_SEARCHES = 12;

/** By run: the rows that were read so far, by prompt. */
const readings = new Map<string, Promise<Map<string, Row>>>();

async function readRows({ dataset }: TrainingJob): Promise<Map<string, Row>> {
  const rows = new Map<string, Row>();
  if (!dataset?.snapshot_id) return rows;
  for (let page = 0, after = "", more = true; more && page < PAGES; page++) {
    const path = `/v1/datasets/${dataset.id}/rows?snapshot=${encodeURIComponent(dataset.snapshot_id)}&limit=100${after}`;
    const answer = await api<RowList>(path);
    for (const { data } of answer.data) if (data) rows.set(keyOf(data["prompt"] ?? data["messages"]), data);
    after = `&after=${answer.data.at(-1)?.row_id ?? 0}`;
    more = answer.has_more;
  }
  return rows;
}

/** A prompt that is not among the first rows is searched for by its text. */
async function findRow({ dataset }: TrainingJob, prompt: unknown): Promise<Row | undefined> {
  const text = typeof prompt === "string" ? prompt.slice(0, 200) : "";
  if (!dataset?.snapshot_id || text === "") return undefined;
  const query = `snapshot=${encodeURIComponent(dataset.snapshot_id)}&contains=${encodeURIComponent(text)}&limit=5`;
  const { data } = await api<RowList>(`/v1/datasets/${dataset.id}/rows?${query}`);
  return data.find((row) => keyOf(row.data?.["prompt"]) === keyOf(prompt))?.data ?? undefined;
}

async function rowsFor(job: TrainingJob, samples: readonly Sample[]): Promise<Map<string, Row>> {
  const reading = readings.get(job.id) ?? readRows(job);
  readings.set(job.id, reading);
  const rows = await reading.catch(() => new Map<string, Row>());
  const missing = new Map(samples.map(({ prompt }) => [keyOf(prompt), prompt]));
  for (const key of rows.keys()) missing.delete(key);
  for (const [key, prompt] of [...missing].slice(0, MOST_SEARCHES)) {
    const row = await findRow(job, prompt).catch(() => undefined);
    if (row) rows.set(key, row);
  }
  return rows;
}

export const samplesAt = async (
  job: TrainingJob,
  step: number | undefined,
  signal?: AbortSignal,
): Promise<Sample[]> => {
  const at = step === undefined ? "" : `&step=${step}`;
  const { data } = await api<{ data: Sample[] }>(`/v1/training_jobs/${job.id}/samples?limit=100${at}`, { signal });
  return data;
};

const MOST_MARKS = 5;

/** Errors of rows, one for each line and message. */
export function faultMarks(results: RewardRun["results"]): Mark[] {
  const marks = new Map<string, Mark>();
  for (const { error } of results)
    if (error?.line != null)
      marks.set(`${error.line}${error.message}`, { line: error.line, column: null, message: error.message });
  return [...marks.values()].slice(0, MOST_MARKS);
}

export async function score(
  job: TrainingJob,
  samples: readonly Sample[],
  { source, language }: Code,
  signal: AbortSignal,
): Promise<Outcome> {
  const byPrompt = await rowsFor(job, samples);
  const rows = samples.map(({ prompt, completion }) => ({ ...byPrompt.get(keyOf(prompt)), prompt, completion }));
  const body = { source, rows, ...(language === undefined ? {} : { language }) };
  const { results, stdout } = await api<RewardRun>("/v1/reward_functions/run", { method: "POST", body, signal });
  const scored = samples.map(({ prompt, completion, reward }, i): Scored => {
    const result = results[i];
    const error = result?.error?.message;
    return { prompt, completion, old: reward, now: result?.reward ?? null, ...(error === undefined ? {} : { error }) };
  });
  return {
    scored,
    stdout,
    faults: results.filter(({ error }) => error !== null),
    withoutRow: samples.filter(({ prompt }) => !byPrompt.has(keyOf(prompt))).length,
  };
}
