import { Elysia } from "elysia";
import type { Ctx } from "../../context.ts";
import { listOf, PageQuery } from "../../http/answer/pagination.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { asks } from "../../http/query.ts";
import { Region } from "./schema.ts";
import * as regions from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/regions", tags: ["Regions"] })
    .use(authed)
    .get("", ({ query }) => regions.list(ctx, query), {
      ...asks(PageQuery),
      detail: describe("List the regions where work can run", { 200: listOf(Region, "RegionList") }),
    })
    .get("/:id", ({ params }) => regions.mustGet(ctx, params.id), {
      detail: describe("Get a region", { 200: Region }),
    });
};
