import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../../context.ts";
import { listOf, PageQuery } from "../../../../http/answer/pagination.ts";
import { area } from "../../../../http/auth.ts";
import { readBody } from "../../../../http/body/json.ts";
import { bodyLimits } from "../../../../http/limits/body_limits.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks } from "../../../../http/query.ts";
import * as items from "../items.ts";
import { byName } from "../names.ts";
import * as schema from "../schema.ts";
import { presentItem, presentQueue } from "../schema.ts";
import * as queues from "../service.ts";
import { annotate, skip } from "./annotate.ts";
import { reserve } from "./reservations.ts";

const ANNOTATE = `One annotation for each annotator and item: a second one replaces the first until the item is complete. The
annotation that completes a pairwise item appends a preference row to the dataset of the queue, unless the vote is a tie. A
single item with a correction appends a completion row. A row is appended exactly once.`;
const NEXT = `The item is reserved for lease_seconds. An annotator with a reservation in this queue gets the same item again.`;

/** The routes of annotators: they read queues and work on items, and change no queue. */
export const workRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "annotate");
  const queueOf = ({ workspaceId }: Principal, id: string) => queues.mustGet(ctx, workspaceId, id);
  return new Elysia({ prefix: "/v1/annotation_queues", tags: ["Annotation queues"] })
    .use(authed)
    .use(byName(ctx))
    .get("", ({ principal, query }) => queues.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List annotation queues", { 200: listOf(schema.AnnotationQueue, "AnnotationQueueList") }),
    })
    .get(
      "/:id",
      ({ principal, params }) => presentQueue(queueOf(principal, params.id), queues.progressOf(ctx, params.id)),
      { detail: describe("Get an annotation queue, with the number of its items", { 200: schema.AnnotationQueue }) },
    )
    .get("/:id/items", ({ principal, params, query }) => items.list(ctx, queueOf(principal, params.id), query), {
      ...asks(schema.ItemsQuery),
      detail: describe("List the items with their annotations, newest first", {
        200: listOf(schema.AnnotationItem, "AnnotationItemList"),
      }),
    })
    .get(
      "/:id/items/:item",
      ({ principal, params }) => items.present(ctx, items.mustGet(ctx, queueOf(principal, params.id), params.item)),
      { detail: describe("Get an item with its annotations", { 200: schema.AnnotationItem }) },
    )
    .post(
      "/:id/next",
      async ({ request, principal, params }) => {
        const queue = queueOf(principal, params.id);
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), schema.ReserveItem, {});
        const { annotator = principal.keyId, lease_seconds: leaseSeconds } = body;
        const reserved = reserve(ctx, queue, { annotator, leaseSeconds });
        const annotations =
          reserved && items.annotationsOf(ctx.db, reserved.item.id).filter((a) => a.annotator === annotator);
        return {
          object: "annotation_queue.reservation",
          queue_id: queue.id,
          annotator,
          item: reserved ? presentItem(reserved.item, annotations ?? []) : null,
          lease_seconds: reserved?.leaseSeconds ?? null,
        };
      },
      {
        detail: describe(
          "Reserve the next item for an annotator",
          { 200: schema.Reservation },
          { description: NEXT, accepts: { "application/json": schema.ReserveItem } },
        ),
      },
    )
    .post(
      "/:id/items/:item/annotations",
      async ({ principal, params, body, set }) => {
        const { annotator = principal.keyId, ...annotation } = body;
        const author = { annotator, keyId: principal.keyId };
        const item = await annotate(ctx, queueOf(principal, params.id), params.item, { ...annotation, ...author });
        set.status = 201;
        return items.present(ctx, item);
      },
      {
        ...takes(schema.CreateAnnotation, { kind: "code" }),
        detail: describe(
          "Annotate an item",
          { 201: schema.AnnotationItem },
          { description: ANNOTATE.replaceAll("\n", " ") },
        ),
      },
    )
    .post(
      "/:id/items/:item/skip",
      async ({ request, principal, params }) => {
        const queue = queueOf(principal, params.id);
        const none = { for_all: false };
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), schema.SkipItem, none);
        const author = { annotator: body.annotator ?? principal.keyId, keyId: principal.keyId };
        const how = { ...author, comment: body.comment ?? null, forAll: body.for_all };
        return items.present(ctx, skip(ctx, queue, params.item, how));
      },
      {
        detail: describe(
          "Skip an item: the annotator does not get it again",
          { 200: schema.AnnotationItem },
          { accepts: { "application/json": schema.SkipItem } },
        ),
      },
    );
};
