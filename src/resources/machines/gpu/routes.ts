import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Gpu, GpuAvailability } from "./schema.ts";
import * as gpu from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/gpu", tags: ["GPU"] })
    .use(authed)
    .get("", ({ principal, query }) => gpu.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the devices that models run on, and the holders of their memory", {
        200: listOf(Gpu, "GpuList"),
      }),
    })
    .get("/availability", ({ principal }) => gpu.availability(ctx, principal.workspaceId), {
      detail: describe("Get the free memory, and the queue for memory", { 200: GpuAvailability }),
    });
};
