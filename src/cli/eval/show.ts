/** Follows an experiment and shows its results. */
import type { ExperimentItem, ExperimentSummary } from "../../resources/quality/experiments/results_schema.ts";
import type { Experiment } from "../../resources/quality/experiments/schema.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { listAll } from "../lists.ts";
import { count, note, print, printJson, printTable } from "../output.ts";
import { pollUntil } from "../poll.ts";
import { createProgress } from "../progress.ts";
import { comparisonTable, regressionTable, verdicts } from "./report.ts";

const POLL_MS = 250;
const OUTAGE_MS = 60_000; // the experiment goes on after a restart of the server

type View = { json: boolean; regressions: boolean };

/** Waits for the end of an experiment and prints its results. Returns the exit code. */
export async function finish(client: Client, { id }: Experiment, view: View, signal: AbortSignal): Promise<number> {
  const last = await follow(client, id, signal);
  if (!last) {
    note(`Experiment ${id} continues on the server. \`verk experiments show ${id}\` shows its progress.`);
    return INTERRUPTED;
  }
  await show(client, last, view);
  if (last.status === "completed") return EXIT.ok;
  const ending = last.status === "failed" ? "failed" : `is ${last.status}`;
  note(`verk: experiment ${id} ${ending}${last.error ? `: ${last.error}` : ""}`);
  return EXIT.failed;
}

/** Prints the results that there are. */
export async function show(client: Client, experiment: Experiment, { json, regressions }: View) {
  const path = `/v1/experiments/${experiment.id}`;
  const { body: summary } = await client.call<ExperimentSummary>("GET", `${path}/summary`);
  const worse = regressions
    ? await listAll<ExperimentItem>(client, `${path}/items?regression=true`, ({ id }) => id)
    : undefined;
  if (json) return printJson({ experiment, summary, ...(worse ? { regressions: worse } : {}) });
  const { header, rows } = comparisonTable(summary);
  printTable(header, rows, "The experiment has no results.");
  for (const line of verdicts(summary)) note(line);
  note(`${count(experiment.row_count, "row")}, ± is the 95 % interval, * is p < 0.05. Experiment ${experiment.id}.`);
  if (!worse) return;
  const table = regressionTable(worse);
  print("");
  printTable(table.header, table.rows, `No row is worse than with ${summary.baseline}.`);
}

/** Undefined if `signal` aborts first. */
async function follow(client: Client, id: string, signal: AbortSignal): Promise<Experiment | undefined> {
  const progress = createProgress();
  const isOver = ({ finished_at: at }: Experiment) => at !== null;
  const probe = async () => {
    const { body } = await client.call<Experiment>("GET", `/v1/experiments/${id}`, undefined, { signal });
    const { done, total } = body.progress;
    if (!isOver(body)) progress.show(body.status, done / total, `${done} of ${total} items`);
    return body;
  };
  return await pollUntil(probe, isOver, { signal, everyMs: POLL_MS, outageMs: OUTAGE_MS }).finally(progress.end);
}
