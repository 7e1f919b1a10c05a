import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area, bearerOrBasic } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { itemsFrom } from "../../quality/annotation_queues/service.ts";
import { itemOfTrace } from "../../quality/experiments/service.ts";
import * as conversations from "./conversations/conversations.ts";
import { replay } from "./conversations/replay.ts";
import { Conversation, ConversationSummary, Replay, ReplayConversation } from "./conversations/schema.ts";
import { exported } from "./export.ts";
import { facets } from "./facets.ts";
import { settled } from "./flush.ts";
import { ExportedTraces, ExportTraces } from "./otlp/ingest.ts";
import { receiveSpans } from "./otlp/receive.ts";
import {
  CreateScore,
  presentScore,
  Score,
  Trace,
  TraceFacets,
  TraceFacetsQuery,
  TraceFilter,
  TraceList,
  TraceQuery,
} from "./schema.ts";
import * as traces from "./service.ts";

export const routes = (ctx: Ctx) =>
  new Elysia().use(traceRoutes(ctx)).use(otlpRoutes(ctx)).use(conversationRoutes(ctx));

const traceRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/traces", tags: ["Observability"] })
    .use(authed)
    .get(
      "",
      ({ principal, query }) =>
        settled(ctx, principal.workspaceId, () => traces.list(ctx, principal.workspaceId, query)),
      {
        ...asks(TraceQuery),
        detail: describe(
          "List traces",
          { 200: TraceList },
          {
            description:
              "Newest first, by the time at which the server recorded them. A page takes about 80 ms: then it is short, or empty, and has_more is true. Pass next_after as after to go on.",
          },
        ),
      },
    )
    .get("/export", ({ request, principal, query }) => exported(ctx, request, principal.workspaceId, query), {
      ...asks(TraceFilter),
      detail: describe("Export traces as JSON lines, oldest first", { 200: "application/x-ndjson" }),
    })
    .get(
      "/facets",
      ({ principal, query }) => settled(ctx, principal.workspaceId, () => facets(ctx, principal.workspaceId, query)),
      {
        ...asks(TraceFacetsQuery),
        detail: describe(
          "Count traces by status, deployment, model, user, tag and score",
          { 200: TraceFacets },
          {
            description: "Counts are exact and of whole hours. They cost the same for a thousand traces and a million.",
          },
        ),
      },
    )
    .get(
      "/:id",
      ({ principal: { workspaceId }, params: { id } }) =>
        settled(ctx, workspaceId, () => ({
          ...traces.withScores(ctx, [traces.mustGet(ctx, workspaceId, id)])[0],
          annotation_items: itemsFrom(ctx, workspaceId, id),
          experiment_item: itemOfTrace(ctx, workspaceId, id) ?? null,
        })),
      { detail: describe("Get a trace with its spans, content and scores", { 200: Trace }) },
    )
    .delete(
      "/:id",
      ({ principal, params: { id } }) => {
        traces.remove(ctx, principal.workspaceId, id);
        return { id, object: "trace", deleted: true };
      },
      {
        detail: describe(
          "Delete a trace with its content and scores",
          { 200: Deleted("trace").meta({ id: "DeletedTrace" }) },
          { description: "Its conversation goes with its last trace. Rows that were made from it stay." },
        ),
      },
    )
    .post(
      "/:id/scores",
      ({ request, principal, params, body, set }) => {
        const { workspaceId, keyId } = principal;
        const score = { ...body, workspaceId, keyId, traceId: params.id };
        return creates(ctx, { request, principal, body, set }, () => presentScore(traces.addScore(ctx, score)));
      },
      { ...takes(CreateScore), detail: describe("Score a trace", { 201: Score }) },
    );
};

/** At the path where exporters send by default, which is also the list of traces, and at the older one. */
const otlpRoutes = (ctx: Ctx) => {
  const { authed } = area(ctx, "inference", bearerOrBasic);
  const receiveAt = (summary: string) =>
    ({
      parse: "none",
      detail: describe(
        summary,
        { 200: ExportedTraces },
        {
          description:
            "OTLP/HTTP in JSON or in protobuf, also with gzip. Spans with attributes of gen_ai or Langfuse become traces. Others are accepted and not kept.",
          accepts: { "application/json": ExportTraces, "application/x-protobuf": "ExportTraceServiceRequest" },
        },
      ),
    }) as const;
  return new Elysia({ prefix: "/v1", tags: ["Observability"] })
    .use(authed)
    .post(
      "/traces",
      ({ request, principal }) => receiveSpans(ctx, request, principal),
      receiveAt("Receive OpenTelemetry spans"),
    )
    .post(
      "/otlp/v1/traces",
      ({ request, principal }) => receiveSpans(ctx, request, principal),
      receiveAt("Receive OpenTelemetry spans at a path of their own"),
    );
};

const conversationRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/traces/conversations", tags: ["Observability"] })
    .use(authed)
    .get(
      "",
      ({ principal, query }) =>
        settled(ctx, principal.workspaceId, () => conversations.list(ctx, principal.workspaceId, query)),
      {
        ...asks(PageQuery),
        detail: describe("List conversations", { 200: listOf(ConversationSummary, "TraceConversationList") }),
      },
    )
    .get(
      "/:id",
      ({ principal, params }) =>
        settled(ctx, principal.workspaceId, () =>
          conversations.view(ctx, conversations.mustGet(ctx, principal.workspaceId, params.id)),
        ),
      { detail: describe("Get a conversation with its traces in order", { 200: Conversation }) },
    )
    .post(
      "/:id/replay",
      async ({ principal, params, body, request }) => {
        const { workspaceId } = principal;
        const found = await settled(ctx, workspaceId, () => conversations.mustGet(ctx, workspaceId, params.id));
        return await replay(ctx, principal, found, body, request);
      },
      {
        ...takes(ReplayConversation),
        detail: describe(
          "Send the requests of a conversation again",
          { 200: Replay },
          { description: "Needs capture: full. Each new request has a trace of its own, outside the conversation." },
        ),
      },
    );
};
