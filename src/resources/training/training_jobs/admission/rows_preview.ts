/** The rows of a job as its model reads them: the first one, and how many are cut or not used. */
import type { Ctx } from "../../../../context.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import type { FromTrainer, InspectTask, TrainPlan } from "../../../../workers/protocol_trainer.ts";
import { runWithVocabulary } from "../../../serving/models/template.ts";
import type { JobValidation } from "./validation_schema.ts";

const SAMPLE = 5_000;
const LONGEST_MS = 5 * MINUTE_MS;

type Caller = { workspaceId: string; signal: AbortSignal };

/** The caller holds the files of the rows open. */
export async function previewRows(ctx: Ctx, caller: Caller, plan: TrainPlan): Promise<JobValidation["rows_preview"]> {
  const {
    max_length: longest,
    assistant_only_loss: assistantOnly,
    chat_template_kwargs: variables,
  } = plan.hyperparameters;
  const maxLength = Number(longest);
  const task: InspectTask = {
    type: "inspect_rows",
    data_dir: ctx.config.data_dir,
    model_path: plan.model_path,
    rows: plan.rows,
    method: plan.rows.format === "preference" ? "dpo" : "sft",
    assistant_only: assistantOnly === true,
    variables: (variables ?? {}) as Record<string, unknown>,
    limit: 1,
    max_length: maxLength,
    sample: SAMPLE,
  };
  const { path } = plan.rows;
  const grants = { reads: [path, `${path}-wal`], updates: [`${path}-shm`] };
  const { rows, statistics } = await runWithVocabulary(
    ctx,
    caller,
    { task, grants, longestMs: LONGEST_MS },
    inspectedOf,
  );
  const { unreadable_rows: unreadable, unlearned_rows: unlearned } = statistics;
  const [first] = rows;
  return {
    rows: statistics.rows,
    measured_rows: statistics.measured_rows + unreadable,
    tokens: statistics.tokens.total,
    max_length: maxLength,
    cut_rows: statistics.over_max_length - Math.min(unlearned, statistics.over_max_length),
    dropped_rows: unreadable + unlearned,
    first: first ? { sequences: first.sequences, error: first.error } : null,
  };
}

const inspectedOf = (message: FromTrainer) => (message.type === "inspected" ? message : undefined);
