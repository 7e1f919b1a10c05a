import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { count, percent } from "../../data/format.ts";
import { Progress as Bar } from "../../kit/progress.tsx";

export const isRunning = ({ status }: Pick<Experiment, "status">) => status === "queued" || status === "running";

/** "40 %", while it runs. */
export const detailOf = ({ status, progress: { done, total } }: Experiment) =>
  status === "running" && total > 0 ? percent(done / total) : undefined;

export const Progress = ({ of: { done, total, failed } }: { of: Experiment["progress"] }) => (
  <Bar label="Answers that are done" done={done} total={total}>
    {count(done)} of {count(total)} answers
    {failed > 0 && <span class="bad">, {count(failed)} failed</span>}
  </Bar>
);
