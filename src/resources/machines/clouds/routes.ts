import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Machine } from "./schema.ts";
import * as clouds from "./service.ts";

/** Only reading: machines are made and ended by the server, with commands of the operator. */
export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/machines", tags: ["Regions"] })
    .use(authed)
    .get("", ({ principal, query }) => clouds.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the machines that clouds made for this workspace, with their cost", {
        200: listOf(Machine, "MachineList"),
      }),
    });
};
