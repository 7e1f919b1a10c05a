import type { Ctx } from "../../../context.ts";
import { Semaphore } from "../../../platform/semaphore.ts";
import { generate } from "../../serving/deployments/chat/generate.ts";
import type { EvaluationItem, EvaluationResult } from "../evaluators/item.ts";
import { run } from "../evaluators/run.ts";
import * as evaluators from "../evaluators/service.ts";
import type { EvaluatorRow } from "../evaluators/table.ts";
import type { EvaluatorRef } from "./table.ts";

declare module "../../../context.ts" {
  interface State {
    readonly experiments: ExperimentsState;
  }
}

/** Calls of an experiment that leave the resource: answers of deployments, and scores of evaluators. */
type Ports = {
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

const ports: Ports = {
  generate,
  resolve: (ctx, workspaceId, ref) => refOf(evaluators.resolve(ctx, workspaceId, ref)),
  evaluate: async (ctx, workspaceId, { id }, items, signal) =>
    run(ctx, workspaceId, evaluators.resolve(ctx, workspaceId, id), items, signal),
};

type Running = { stop: AbortController; done: Promise<void> };

/** The state of experiments that lives in this process (`ctx.state.experiments`). */
export class ExperimentsState {
  /** Experiments whose items are worked on now. */
  readonly running = new Map<string, Running>();
  /** One for each workspace. An experiment mostly waits for its deployments, which have limits of their own. */
  readonly permits = new Semaphore({ name: "experiments", permits: 16, mostEach: 1 });
  /** Experiments that wait after a fault of the server. `notBefore`: by the steady clock. */
  readonly faults = new Map<string, { failures: number; notBefore: number }>();
  /** Ids whose snapshot is pinned and whose row does not exist yet. */
  readonly admitting = new Set<string>();
  /** Resolves when there may be an experiment to start. */
  bell = Promise.withResolvers<void>();
  /** Tests replace them. */
  ports: Ports = ports;
}
