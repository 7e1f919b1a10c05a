import { and, eq } from "drizzle-orm";
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { createsLater } from "../../../http/idempotency.ts";
import { longRead } from "../../../http/limits/long_reads.ts";
import { describe } from "../../../http/openapi.ts";
import { asks, MOST_IDS, named } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { itemsFrom } from "../annotation_queues/service.ts";
import * as results from "./results.ts";
import { ExperimentItem, ExperimentSummary } from "./results_schema.ts";
import { CreateExperiment, Experiment, present } from "./schema.ts";
import * as experiments from "./service.ts";
import { STATUSES, experiments as table } from "./table.ts";

const ListQuery = PageQuery.extend({
  status: z.enum(STATUSES).optional(),
  dataset_id: z.string().optional().describe("Only experiments on this dataset"),
  deployment_id: z.string().optional().describe("Only experiments with this deployment, temporary ones included"),
  job_id: z.string().optional().describe("Only experiments with a result or checkpoint of this training job"),
  evaluator_id: z.string().optional().describe("Only experiments with this version of an evaluator"),
});
const ItemsQuery = PageQuery.extend({
  target: z.string().optional().describe("Name of a target"),
  regression: z
    .enum(["true", "false"])
    .transform((text) => text === "true")
    .optional()
    .describe("true: only items with a score below that of the baseline"),
});
const CREATE =
  "The experiment runs in the background and goes on after a restart. A checkpoint or a base model gets a temporary deployment for as long as the experiment needs it.";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/experiments", tags: ["Experiments"] })
    .use(authed)
    .use(byName(ctx))
    .post(
      "",
      ({ request, principal, body, set }) =>
        createsLater(ctx, { request, principal, body, set }, (once) => experiments.create(ctx, principal, body, once)),
      {
        ...takes(CreateExperiment),
        detail: describe("Compare targets on the rows of a dataset", { 201: Experiment }, { description: CREATE }),
      },
    )
    .get("", ({ principal, query }) => experiments.list(ctx, principal.workspaceId, query), {
      ...asks(ListQuery),
      detail: describe("List experiments", { 200: listOf(Experiment, "ExperimentList") }),
    })
    .get("/:id", ({ principal, params }) => present(experiments.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get an experiment and its progress", { 200: Experiment }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = experiments.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "experiment", deleted: true };
      },
      { detail: describe("Delete an experiment that has ended, with its items", { 200: Deleted("experiment") }) },
    )
    .post(
      "/:id/cancel",
      ({ principal, params }) => present(experiments.cancel(ctx, principal.workspaceId, params.id)),
      { detail: describe("Cancel an experiment; finished items stay", { 200: Experiment }) },
    )
    .get(
      "/:id/items",
      ({ principal: { workspaceId }, params, query }) =>
        results.items(ctx, experiments.mustGet(ctx, workspaceId, params.id), query, (id) =>
          itemsFrom(ctx, workspaceId, id),
        ),
      {
        ...asks(ItemsQuery),
        detail: describe("List the items of an experiment", { 200: listOf(ExperimentItem, "ExperimentItemList") }),
      },
    )
    .get(
      "/:id/summary",
      ({ principal, params }) => {
        const experiment = experiments.mustGet(ctx, principal.workspaceId, params.id);
        return longRead(ctx, principal, () => results.summary(ctx, experiment));
      },
      {
        detail: describe(
          "Compare the targets of an experiment with its baseline",
          { 200: ExperimentSummary },
          { description: "Means with 95 % intervals, and paired tests over the rows that both have a score for." },
        ),
      },
    );
};

/** Experiments by name, in the paths of routes. */
const byName = ({ db }: Pick<Ctx, "db">) =>
  named("exp", "experiments", (workspaceId, name) =>
    db
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.workspaceId, workspaceId), eq(table.name, name)))
      .limit(MOST_IDS)
      .all(),
  );
