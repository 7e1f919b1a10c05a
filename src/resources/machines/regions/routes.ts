import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { createsLater } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { CheckRegion, CreateRegion, Region, RegionCheck } from "./schema.ts";
import * as regions from "./service.ts";

const OPTIONS = { prefix: "/v1/regions", tags: ["Regions"] };

export const routes = (ctx: Ctx) => new Elysia().use(reading(ctx)).use(changing(ctx));

const reading = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia(OPTIONS)
    .use(authed)
    .get("", ({ principal, query }) => regions.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the regions where work can run", { 200: listOf(Region, "RegionList") }),
    })
    .get("/:id", ({ principal, params }) => regions.mustGet(ctx, principal.workspaceId, params.id), {
      detail: describe("Get a region", { 200: Region }),
    });
};

/** A region uses a private key of the workspace, so these routes need the same scope as the keys. */
const changing = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia(OPTIONS)
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        createsLater(ctx, { request, principal, body, set }, (once) =>
          regions.create(ctx, principal.workspaceId, body, once),
        ),
      {
        ...takes(CreateRegion),
        detail: describe("Add a machine that is reached over SSH; its host key is pinned", { 201: Region }),
      },
    )
    .post("/checks", ({ principal, body }) => regions.checkNewRegion(ctx, principal.workspaceId, body), {
      ...takes(CheckRegion),
      detail: describe(
        "Check an address, a key and a directory before a region is added",
        { 200: RegionCheck },
        { description: "Signs in and makes the work directory. Nothing is stored, and no program is copied." },
      ),
    })
    .post("/:id/checks", ({ principal, params }) => regions.check(ctx, principal.workspaceId, params.id), {
      detail: describe("Check a region step by step", { 200: RegionCheck }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = regions.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "region", deleted: true };
      },
      { detail: describe("Delete a region", { 200: Deleted("region") }) },
    );
};
