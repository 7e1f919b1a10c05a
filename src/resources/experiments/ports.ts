/** Calls of an experiment that leave the resource: answers of deployments, and scores of evaluators. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { generate } from "../deployments/chat/generate.ts";
import type { EvaluatorRef, Input } from "./table.ts";

export type EvaluationItem = {
  input: Input;
  output: string;
  reference?: string | null;
  /** The answer of the baseline, for a pairwise evaluator. */
  other?: string;
  row?: Record<string, unknown>;
};

export type EvaluationResult = {
  score: number | null;
  label: string | null;
  passed: boolean | null;
  reason: string | null;
  error: string | null;
  latencyMs: number;
};

export type Ports = {
  generate: typeof generate;
  /** Throws `resource_not_found` for an evaluator that does not exist. */
  resolve: (ctx: Ctx, workspaceId: string, ref: string) => EvaluatorRef;
  /** One result for each item, in order. */
  evaluate: (
    ctx: Ctx,
    workspaceId: string,
    evaluator: EvaluatorRef,
    items: EvaluationItem[],
    signal: AbortSignal,
  ) => Promise<EvaluationResult[]>;
};

export const ports: Ports = {
  generate,
  resolve: (_ctx, _workspaceId, ref) => {
    throw new AppError("resource_not_found", `No evaluator ${ref.slice(0, 80)}`);
  },
  evaluate: async () => {
    throw new AppError("resource_not_found", "No evaluators");
  },
};
