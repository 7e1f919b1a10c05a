/** Fine-tuning jobs in the format of OpenAI: training jobs whose result is deployed. */
import { and, eq, isNull, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { create as createTrainingJob } from "../../training/training_jobs/admission/create.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import { type JobRow, trainingCheckpoints, trainingEvents } from "../../training/training_jobs/table.ts";
import * as files from "../files/service.ts";
import { datasetOf } from "./datasets.ts";
import { present, presentCheckpoint, presentEvent } from "./present.ts";
import type { CreateFineTuningJob, FineTuningJob } from "./schema.ts";
import { type FineTuningRow, fineTuningJobs } from "./table.ts";
import { methodOf, renamed, servedName, trainingRequest } from "./translate.ts";

const insert = preparedInsert(fineTuningJobs);
const byId = preparedRow(
  fineTuningJobs,
  and(eq(fineTuningJobs.id, sql.placeholder("id")), eq(fineTuningJobs.workspaceId, sql.placeholder("workspaceId"))),
);

type TunedJob = { row: FineTuningRow; job: JobRow };

export function mustGet(ctx: Ctx, workspaceId: string, id: string): TunedJob {
  const row = byId(ctx.db, { id, workspaceId });
  const job = row && currentJob(ctx.db, id);
  if (!job) throw new AppError("resource_not_found", `No fine-tuning job ${id.slice(0, 80)}`, { param: "id" });
  return { row, job };
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(
    ctx.db,
    fineTuningJobs,
    eq(fineTuningJobs.workspaceId, workspaceId),
    query,
    (row) => present(row, currentJob(ctx.db, row.id) as JobRow), // the row goes with its job
  );

export const events = (ctx: Ctx, { id }: JobRow, query: PageQuery) =>
  page(ctx.db, trainingEvents, eq(trainingEvents.jobId, id), query, presentEvent);

export const checkpoints = (ctx: Ctx, { id }: JobRow, query: PageQuery) => {
  const kept = and(eq(trainingCheckpoints.jobId, id), isNull(trainingCheckpoints.deletedAt));
  return page(ctx.db, trainingCheckpoints, kept, query, presentCheckpoint);
};

type Caller = Principal & { signal: AbortSignal };

/** One commit inserts the training job and the row of this format. */
export async function create(ctx: Ctx, caller: Caller, body: CreateFineTuningJob, once?: Once): Promise<FineTuningJob> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as FineTuningJob; // the answer that `keep` stored
  const { workspaceId, signal } = caller;
  const method = methodOf(body);
  const read = async (id: string, param: string) => {
    const file = files.mustGet(ctx, workspaceId, id, `/${param}`);
    return (await datasetOf(ctx, file, { method: method.type, param, signal })).id;
  };
  const dataset = await read(body.training_file, "training_file");
  const evalDataset = body.validation_file ? await read(body.validation_file, "validation_file") : null;
  const name = servedName(body, newId("job"));
  let answer: FineTuningJob | undefined;
  const keep: Once["keep"] = (tx, job) => {
    const { id } = job as { id: string };
    const row = insert(tx, {
      id,
      workspaceId,
      model: body.model,
      method,
      trainingFile: body.training_file,
      servedName: name,
      validationFile: body.validation_file ?? null,
      deploymentId: null,
      deploymentError: null,
      createdAt: ctx.clock.now(),
    });
    answer = present(row, currentJob(tx, id) as JobRow); // inserted in this commit
    once?.keep(tx, answer);
  };
  const request = trainingRequest(body, { dataset, eval_dataset: evalDataset }, name);
  await createTrainingJob(ctx, caller, request, { before: () => undefined, keep }).catch((error) => {
    throw renamed(error);
  });
  return answer as FineTuningJob; // `keep` has run
}
