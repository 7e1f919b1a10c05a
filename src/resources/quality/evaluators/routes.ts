import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted, flagText } from "../../../lib/schema.ts";
import { abortCause, callerSignal } from "../../training/reward_functions/check.ts";
import { KINDS } from "./config.ts";
import { create } from "./create.ts";
import { run } from "./run.ts";
import * as schema from "./schema.ts";
import * as evaluators from "./service.ts";

const ROWS_BODY = { kind: "rewards", list: { name: "rows", most: schema.MAX_ROWS, exact: true } } as const;
const ListQuery = PageQuery.extend({
  name: z.string().optional().describe("Only versions of this name"),
  kind: z.enum(KINDS).optional(),
  latest: flagText.default(false).describe("Only the newest version of each name"),
});
const CREATE = `An existing name gets its next version. 200: the newest version of this name has the same settings and is
returned. Code and JSON schemas are checked in the sandbox; those that cannot be used are 422.`;
const RUN = `A row that cannot be scored has an error and no score. Judges and embeddings let live requests of their
deployment go first.`;

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/evaluators", tags: ["Evaluators"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) => {
        keepOpen(ctx, request);
        return create(ctx, { request, principal, body, set });
      },
      {
        ...takes(schema.CreateEvaluator, { kind: "code" }),
        detail: describe(
          "Create an evaluator, or the next version of one",
          { 200: schema.Evaluator, 201: schema.Evaluator },
          { description: CREATE.replaceAll("\n", " ") },
        ),
      },
    )
    .get("", ({ principal, query }) => evaluators.list(ctx, principal.workspaceId, query), {
      ...asks(ListQuery),
      detail: describe("List the versions of evaluators", { 200: listOf(schema.Evaluator, "EvaluatorList") }),
    })
    .get("/:id", ({ principal, params }) => evaluators.get(ctx, principal.workspaceId, params.id), {
      detail: describe("Get a version by id or name@3, or the newest by name", { 200: schema.Evaluator }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = evaluators.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "evaluator", deleted: true };
      },
      { detail: describe("Delete one version, by id or name@3", { 200: Deleted("evaluator") }) },
    )
    .post(
      "/:id/run",
      async ({ request, principal: { workspaceId }, params, body }) => {
        keepOpen(ctx, request);
        const evaluator = evaluators.resolve(ctx, workspaceId, params.id);
        const signal = callerSignal(ctx, request);
        try {
          const results = await run(ctx, workspaceId, evaluator, body.rows.map(schema.itemOf), signal);
          return schema.presentRun(evaluator.id, results);
        } catch (error) {
          throw abortCause(ctx, signal, error);
        }
      },
      {
        ...takes(schema.RunEvaluator, ROWS_BODY),
        detail: describe(
          "Run an evaluator over rows",
          { 200: schema.EvaluatorRun },
          { description: RUN.replaceAll("\n", " ") },
        ),
      },
    );
};
