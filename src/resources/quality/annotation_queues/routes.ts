import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { creates, createsLater } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { Deleted } from "../../../lib/schema.ts";
import { Agreement, agreementOf } from "./agreement.ts";
import * as items from "./items.ts";
import { byName } from "./names.ts";
import * as schema from "./schema.ts";
import { presentQueue } from "./schema.ts";
import * as queues from "./service.ts";

const ITEMS_BODY = { kind: "rewards", list: { name: "items", most: schema.MAX_NEW_ITEMS } } as const;
/** Makes and changes queues. `work/routes.ts` has the routes of annotators. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const queueOf = ({ workspaceId }: Principal, id: string) => queues.mustGet(ctx, workspaceId, id);
  return new Elysia({ prefix: "/v1/annotation_queues", tags: ["Annotation queues"] })
    .use(authed)
    .use(byName(ctx))
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          const row = queues.create(ctx, principal.workspaceId, body);
          return presentQueue(row, queues.progressOf(ctx, row.id));
        }),
      {
        ...takes(schema.CreateAnnotationQueue),
        detail: describe("Create an annotation queue", { 201: schema.AnnotationQueue }),
      },
    )
    .patch(
      "/:id",
      ({ principal, params, body }) => {
        const row = queues.update(ctx, principal.workspaceId, params.id, body);
        return presentQueue(row, queues.progressOf(ctx, row.id));
      },
      {
        ...takes(schema.UpdateAnnotationQueue),
        detail: describe("Change the name, instructions, lease, dataset or metadata", { 200: schema.AnnotationQueue }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = queues.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "annotation_queue", deleted: true };
      },
      { detail: describe("Delete a queue with its items and annotations", { 200: Deleted("annotation_queue") }) },
    )
    .post(
      "/:id/items",
      ({ request, principal, params, body, set }) => {
        const queue = queueOf(principal, params.id);
        return createsLater(ctx, { request, principal, body, set }, (once) => items.add(ctx, queue, body, once));
      },
      {
        ...takes(schema.AddItems, ITEMS_BODY),
        detail: describe("Add items: given ones, captured traces, or the rows of a dataset", {
          201: schema.AddedItems,
        }),
      },
    )
    .get("/:id/agreement", ({ principal, params }) => agreementOf(ctx, queueOf(principal, params.id)), {
      detail: describe("Agreement of the annotators: Krippendorff's alpha and Cohen's kappa", { 200: Agreement }),
    });
};
