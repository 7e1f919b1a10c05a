import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx, Principal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { createsLater } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { later } from "../../../lib/schema.ts";
import * as experiments from "../../quality/experiments/service.ts";
import { callerSignal } from "../../training/reward_functions/check.ts";
import { present } from "./present.ts";
import * as runs from "./runs.ts";
import { CreateEval, CreateEvalRun, Eval, EvalOutputItem, EvalRun, UpdateEval } from "./schema.ts";
import * as evals from "./service.ts";

const EvalDeleted = later(() =>
  z.object({ object: z.literal("eval.deleted"), deleted: z.literal(true), eval_id: z.string() }),
);

const EvalRunDeleted = later(() =>
  z.object({ object: z.literal("eval.run.deleted"), deleted: z.literal(true), run_id: z.string() }),
);

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  type Call = { principal: Principal; params: { id: string; run: string } };
  const recordOf = ({ principal, params }: Call) => runs.mustGet(ctx, principal.workspaceId, params);
  const callerOf = (principal: Principal, request: Request) => {
    keepOpen(ctx, request);
    return { ...principal, signal: callerSignal(ctx, request) };
  };
  return new Elysia({ prefix: "/v1/evals", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) => {
        const caller = callerOf(principal, request);
        return createsLater(ctx, { request, principal, body, set }, (once) => evals.create(ctx, caller, body, once));
      },
      {
        ...takes(CreateEval, { kind: "code" }),
        detail: describe(
          "Create an eval, in the format of OpenAI",
          { 201: Eval },
          { description: "Each criterion becomes an evaluator. A criterion that asks a model becomes a judge." },
        ),
      },
    )
    .get("", ({ principal, query }) => evals.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List evals", { 200: listOf(Eval, "EvalList") }),
    })
    .get("/:id", ({ principal, params }) => present(evals.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get an eval", { 200: Eval }),
    })
    .post("/:id", ({ principal, params, body }) => present(evals.update(ctx, principal.workspaceId, params.id, body)), {
      ...takes(UpdateEval),
      detail: describe("Change the name or the metadata of an eval, as OpenAI's clients do", { 200: Eval }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = evals.remove(ctx, principal.workspaceId, params.id);
        return { object: "eval.deleted", deleted: true, eval_id: id };
      },
      { detail: describe("Delete an eval; its evaluators and experiments stay", { 200: EvalDeleted }) },
    )
    .post(
      "/:id/runs",
      ({ request, principal, params, body, set }) => {
        const caller = callerOf(principal, request);
        const parent = evals.mustGet(ctx, principal.workspaceId, params.id);
        return createsLater(ctx, { request, principal, body, set }, (once) =>
          runs.create(ctx, caller, { parent, body }, once),
        );
      },
      {
        ...takes(CreateEvalRun, { kind: "code" }),
        detail: describe(
          "Run an eval, in the format of OpenAI",
          { 201: EvalRun },
          { description: "An experiment of the same id does the work." },
        ),
      },
    )
    .get("/:id/runs", ({ principal, params, query }) => runs.list(ctx, principal.workspaceId, params.id, query), {
      ...asks(PageQuery),
      detail: describe("List the runs of an eval", { 200: listOf(EvalRun, "EvalRunList") }),
    })
    .get("/:id/runs/:run", (call) => runs.show(ctx.db, recordOf(call)), {
      detail: describe("Get a run of an eval", { 200: EvalRun }),
    })
    .post(
      "/:id/runs/:run",
      (call) => {
        const record = recordOf(call);
        experiments.cancel(ctx, call.principal.workspaceId, record.run.id);
        return runs.show(ctx.db, recordOf(call));
      },
      { detail: describe("Cancel a run of an eval; finished items stay", { 200: EvalRun }) },
    )
    .delete(
      "/:id/runs/:run",
      (call) => {
        const { run } = recordOf(call);
        experiments.remove(ctx, call.principal.workspaceId, run.id);
        return { object: "eval.run.deleted", deleted: true, run_id: run.id };
      },
      { detail: describe("Delete a run of an eval that has ended, with its experiment", { 200: EvalRunDeleted }) },
    )
    .get("/:id/runs/:run/output_items/:item", (call) => runs.item(ctx, recordOf(call), call.params.item), {
      detail: describe("Get an item of a run", { 200: EvalOutputItem }),
    })
    .get("/:id/runs/:run/output_items", ({ query, ...call }) => runs.items(ctx, recordOf(call), query), {
      ...asks(PageQuery),
      detail: describe("List the items of a run", { 200: listOf(EvalOutputItem, "EvalOutputItemList") }),
    });
};
