import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { listOf, PageQuery } from "../../../../http/answer/pagination.ts";
import { area } from "../../../../http/auth.ts";
import { readBody } from "../../../../http/body/json.ts";
import { keepOpen } from "../../../../http/connection.ts";
import { creates } from "../../../../http/idempotency.ts";
import { bodyLimits } from "../../../../http/limits/body_limits.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks } from "../../../../http/query.ts";
import { byName } from "../names.ts";
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
  const datasetOf = (principal: { workspaceId: string }, id: string) =>
    datasets.mustGet(ctx, principal.workspaceId, id);
  return new Elysia({ prefix: "/v1/datasets", tags: ["Datasets"] })
    .use(authed)
    .use(byName(ctx))
    .post(
      "/connect",
      async ({ request, principal, body, set }) => {
        keepOpen(ctx, request);
        const caller = { workspaceId: principal.workspaceId, signal: request.signal };
        const source = await checkSource(ctx, caller, body);
        const { name, metadata } = body;
        // A retry is not compared by its credentials: they are not stored, not even as a hash.
        return creates(ctx, { request, principal, body: { name, metadata, source }, set }, () =>
          present(datasets.createConnected(ctx, principal.workspaceId, { name, metadata, source })),
        );
      },
      {
        ...takes(ConnectDataset),
        detail: describe("Connect a source; the credentials only test it and are never stored", { 201: Dataset }),
      },
    )
    .post(
      "/connect/validate",
      ({ request, principal, body }) => {
        keepOpen(ctx, request);
        return validate(ctx, { workspaceId: principal.workspaceId, signal: request.signal }, body);
      },
      {
        ...takes(ValidateSource),
        detail: describe("Validate a source without creating a dataset", { 200: SourceValidation }),
      },
    )
    .post(
      "/:id/resolutions",
      async ({ request, principal, params, set }) => {
        const dataset = datasetOf(principal, params.id);
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), ResolveDataset, {});
        return creates(ctx, { request, principal, set }, () => {
          set.status = 202;
          return presentResolution(resolve.begin(ctx, dataset, { credentials: body.credentials ?? {} }));
        });
      },
      {
        detail: describe(
          "Read a connected source into a snapshot, or return the resolution that is running",
          { 202: Resolution },
          { accepts: { "application/json": ResolveDataset } },
        ),
      },
    )
    .get(
      "/:id/resolutions",
      ({ principal, params, query }) => resolve.list(ctx, datasetOf(principal, params.id), query),
      {
        ...asks(PageQuery),
        detail: describe("List the resolutions of a connected source", {
          200: listOf(Resolution, "DatasetResolutionList"),
        }),
      },
    )
    .get(
      "/:id/resolutions/:resolution",
      ({ principal, params }) =>
        presentResolution(resolve.mustGet(ctx, datasetOf(principal, params.id), params.resolution)),
      { detail: describe("Get a resolution and its progress", { 200: Resolution }) },
    )
    .post(
      "/:id/resolutions/:resolution/cancel",
      async ({ principal, params }) =>
        presentResolution(await resolve.cancel(ctx, datasetOf(principal, params.id), params.resolution)),
      { detail: describe("Cancel a resolution", { 200: Resolution }) },
    );
};
