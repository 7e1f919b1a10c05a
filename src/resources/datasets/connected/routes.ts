import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { readBody } from "../../../http/body/json.ts";
import { keepOpen } from "../../../http/connection.ts";
import { creates } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import {
  ConnectDataset,
  Dataset,
  present,
  presentResolution,
  Resolution,
  ResolveDataset,
  SourceValidation,
  ValidateSource,
} from "../schema.ts";
import * as datasets from "../service.ts";
import { checkSource, validate } from "./connect.ts";
import * as resolve from "./resolve.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const mine = (principal: { workspaceId: string }, id: string) => datasets.mustGet(ctx, principal.workspaceId, id);
  return new Elysia({ prefix: "/v1/datasets", tags: ["Datasets"] })
    .use(authed)
    .post(
      "/connect",
      async ({ request, principal, body, set }) => {
        keepOpen(ctx, request);
        const source = await checkSource(ctx, body, request.signal);
        const { name, metadata } = body;
        // The credentials are no part of what a retry must match: they are not kept, not even as a hash.
        return creates(ctx, { request, principal, body: { name, metadata, source }, set }, () =>
          present(datasets.createConnected(ctx, principal.workspaceId, { name, metadata, source }), { whole: true }),
        );
      },
      {
        ...takes(ConnectDataset),
        detail: describe("Connect a source; credentials are used to test it and never stored", { 201: Dataset }),
      },
    )
    .post(
      "/connect/validate",
      ({ request, body }) => {
        keepOpen(ctx, request);
        return validate(ctx, body, request.signal);
      },
      {
        ...takes(ValidateSource),
        detail: describe("Look at a source without creating anything", { 200: SourceValidation }),
      },
    )
    .post(
      "/:id/resolutions",
      async ({ request, principal, params, set }) => {
        const dataset = mine(principal, params.id);
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), ResolveDataset, {});
        return creates(ctx, { request, principal, set }, () => {
          set.status = 202;
          return presentResolution(resolve.begin(ctx, dataset, { credentials: body.credentials ?? {} }));
        });
      },
      {
        detail: describe(
          "Read a connected source into a snapshot; joins a reading that is under way",
          { 202: Resolution },
          { accepts: { "application/json": ResolveDataset } },
        ),
      },
    )
    .get("/:id/resolutions", ({ principal, params, query }) => resolve.list(ctx, mine(principal, params.id), query), {
      ...asks(PageQuery),
      detail: describe("List the readings of a connected source", { 200: listOf(Resolution, "DatasetResolutionList") }),
    })
    .get(
      "/:id/resolutions/:resolution",
      ({ principal, params }) => presentResolution(resolve.mustGet(ctx, mine(principal, params.id), params.resolution)),
      { detail: describe("How far a reading is", { 200: Resolution }) },
    )
    .post(
      "/:id/resolutions/:resolution/cancel",
      async ({ principal, params }) =>
        presentResolution(await resolve.cancel(ctx, mine(principal, params.id), params.resolution)),
      { detail: describe("Stop a reading", { 200: Resolution }) },
    );
};
