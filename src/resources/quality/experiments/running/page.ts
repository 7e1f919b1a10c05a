/** One page of rows for one target. Answers are scored in batches while the next rows are answered. */
import { type Answered, answerRow, type Work } from "./item.ts";
import type { QuestionRow } from "./rows.ts";
import { scoreItems } from "./scoring.ts";

/** Code evaluators start a process for each batch, and a judge is asked this many questions at once. */
const SCORED_AT_ONCE = 16;

/** The first fault stops the page, and is thrown when nothing of the page runs any more. */
export async function runPage(work: Work, due: readonly QuestionRow[]): Promise<void> {
  const { row, signal, turn } = work;
  const answered: Answered[] = [];
  const faults: unknown[] = [];
  const note = (error: unknown) => void faults.push(error);
  const isOn = () => faults.length === 0 && !signal.aborted;
  const score = async () => {
    while (answered.length > 0 && isOn()) await scoreItems(work, answered.splice(0, SCORED_AT_ONCE)).catch(note);
    scoring = undefined;
  };
  let scoring: Promise<void> | undefined;
  let next = 0;
  const lane = async () => {
    for (; next < due.length && isOn(); await turn()) {
      const done = await answerRow(work, due[next++] as QuestionRow).catch(note);
      if (!done) continue;
      answered.push(done);
      scoring ??= score();
    }
  };
  await Promise.all(Array.from({ length: Math.min(row.concurrency, due.length) }, lane));
  await scoring;
  if (faults.length > 0) throw faults[0];
}
