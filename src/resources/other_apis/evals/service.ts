/** Evaluations in the format of OpenAI: each criterion is an evaluator, and each run an experiment. */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as evaluators from "../../quality/evaluators/service.ts";
import { check } from "../../training/reward_functions/check.ts";
import { rewardSource } from "../fine_tuning/graders.ts";
import { asksModel, judgeOf } from "./judges.ts";
import { present } from "./present.ts";
import { ITEM } from "./rows.ts";
import type { CreateEval, Criterion, Eval, ModelCriterion } from "./schema.ts";
import { type EvalRow, evals } from "./table.ts";

const insert = preparedInsert(evals);
const byId = preparedRow(
  evals,
  and(eq(evals.id, sql.placeholder("id")), eq(evals.workspaceId, sql.placeholder("workspaceId"))),
);

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): EvalRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No eval ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, evals, eq(evals.workspaceId, workspaceId), query, present);

type Caller = Principal & { signal: AbortSignal };
const LANGUAGE = "python" as const;
/** The sandbox loads code with this function; a grader has the function grade. */
const REWARD = "def reward(prompt, completion, row):\n    return 0.0\n";

/** Code of a caller is loaded in the sandbox before it is stored. A judge must be there. */
async function mustWork(ctx: Ctx, caller: Caller, criteria: readonly Criterion[]) {
  for (const [i, criterion] of criteria.entries()) {
    if (asksModel(criterion))
      evaluators.mustServe(ctx, caller.workspaceId, criterion.model, `/testing_criteria/${i}/model`);
    if (criterion.type !== "python") continue;
    const source = `${criterion.source}\n\n${REWARD}`;
    const loaded = await check(ctx, { language: LANGUAGE, source, params: {}, seed: 0 }, caller);
    if (loaded.ok) continue;
    const at = ["testing_criteria", i, "source"];
    throw new AppError("schema", `${at.join(".")}: cannot be run: ${loaded.error.message}`, {
      param: `/${at.join("/")}`,
    });
  }
}

const thresholdOf = (criterion: Exclude<Criterion, ModelCriterion>): number =>
  (criterion.type === "string_check" ? undefined : criterion.pass_threshold) ?? 1;

type Scorer = Pick<evaluators.NewVersion, "kind" | "config" | "source" | "passThreshold">;

function scorerOf(ctx: Ctx, criterion: Criterion, at: string): Scorer {
  if (asksModel(criterion)) return judgeOf(criterion, at);
  const config = { language: LANGUAGE, params: {}, timeout_seconds: ctx.config.sandbox.sample_timeout_ms / 1000 };
  return { kind: "code", config, source: rewardSource(criterion, ITEM), passThreshold: thresholdOf(criterion) };
}

/** One commit inserts the eval and its evaluators. */
export async function create(ctx: Ctx, caller: Caller, body: CreateEval, once?: Once): Promise<Eval> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as Eval; // the answer that `keep` stored
  await mustWork(ctx, caller, body.testing_criteria);
  const scorers = body.testing_criteria.map((criterion, i) => scorerOf(ctx, criterion, `testing_criteria/${i}`));
  const { workspaceId } = caller;
  const now = ctx.clock.now();
  const id = newId("eval", now);
  return write(ctx.db, (tx) => {
    const evaluatorRows = scorers.map((scorer, i) => {
      const description = body.testing_criteria[i]?.name ?? null;
      const named = { workspaceId, name: `${id}.${i + 1}`, description, metadata: { eval: id } };
      return evaluators.add(tx, { ...scorer, ...named }, now);
    });
    const row = insert(tx, {
      id,
      workspaceId,
      name: body.name ?? id,
      dataSourceConfig: body.data_source_config,
      testingCriteria: body.testing_criteria,
      evaluators: evaluatorRows.map((each) => each.id),
      metadata: body.metadata ?? {},
      createdAt: now,
    });
    const answer = present(row);
    once?.keep(tx, answer);
    return answer;
  });
}

type Change = { name?: string | undefined; metadata?: Record<string, string> | null | undefined };

export const update = (ctx: Ctx, workspaceId: string, id: string, { name, metadata }: Change): EvalRow =>
  write(ctx.db, (tx) => {
    const row = mustGet({ db: tx as Ctx["db"] }, workspaceId, id);
    const patch = { name: name ?? row.name, metadata: metadata === undefined ? row.metadata : (metadata ?? {}) };
    tx.update(evals).set(patch).where(eq(evals.id, row.id)).run();
    return { ...row, ...patch };
  });

/** The evaluators and the experiments of its runs stay. */
export function remove(ctx: Ctx, workspaceId: string, id: string): EvalRow {
  return write(ctx.db, (tx) => {
    const row = mustGet({ db: tx as Ctx["db"] }, workspaceId, id);
    tx.delete(evals).where(eq(evals.id, row.id)).run();
    return row;
  });
}

/** For a workspace that is deleted. */
export const removeAll = (ctx: Ctx, workspaceId: string) =>
  write(ctx.db, (tx) => tx.delete(evals).where(eq(evals.workspaceId, workspaceId)).run());
