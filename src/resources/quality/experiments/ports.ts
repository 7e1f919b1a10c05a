/** Calls of an experiment that leave the resource: answers of deployments, and scores of evaluators. */
import type { Ctx } from "../../../context.ts";
import { generate } from "../../serving/deployments/chat/generate.ts";
import type { EvaluationItem, EvaluationResult } from "../evaluators/item.ts";
import { run } from "../evaluators/run.ts";
import * as evaluators from "../evaluators/service.ts";
import type { EvaluatorRow } from "../evaluators/table.ts";
import type { EvaluatorRef } from "./table.ts";

export type Ports = {
  generate: typeof generate;
  /** Throws `resource_not_found` for an evaluator that does not exist. */
  resolve: (ctx: Ctx, workspaceId: string, ref: string) => EvaluatorRef;
  /** One result for each item, in order. Throws if the evaluator itself cannot be run. */
  evaluate: (
    ctx: Ctx,
    workspaceId: string,
    evaluator: EvaluatorRef,
    items: EvaluationItem[],
    signal: AbortSignal,
  ) => Promise<EvaluationResult[]>;
};

const refOf = (row: EvaluatorRow): EvaluatorRef => ({
  id: row.id,
  label: row.name,
  version: row.version,
  pairwise: row.kind === "llm_judge" && "mode" in row.config && row.config.mode === "pairwise",
});

export const ports: Ports = {
  generate,
  resolve: (ctx, workspaceId, ref) => refOf(evaluators.resolve(ctx, workspaceId, ref)),
  evaluate: async (ctx, workspaceId, { id }, items, signal) =>
    run(ctx, workspaceId, evaluators.resolve(ctx, workspaceId, id), items, signal),
};
