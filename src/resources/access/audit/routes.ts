import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import type { AllRoutes } from "../../../http/route_groups.ts";
import { routeNames } from "../../../lib/route_names.ts";
import { AuditEntry, AuditQuery } from "./schema.ts";
import * as log from "./service.ts";

export const routes = (ctx: Ctx, all: AllRoutes) => {
  let nameOf: ReturnType<typeof routeNames> | undefined;
  const { authed } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/account", tags: ["Account"] }).use(authed).get(
    "/audit_log",
    async ({ principal, query }) => {
      nameOf ??= routeNames(await all());
      return log.list(ctx, principal.workspaceId, query, nameOf);
    },
    {
      ...asks(AuditQuery),
      detail: describe(
        "List the calls that changed something or tried to",
        { 200: listOf(AuditEntry, "AuditEntryList") },
        {
          description:
            "Lists every call of this workspace's keys except inference, which has its own records, and GET. A GET that reveals a secret is listed too. Commands on the server's machine are listed. An entry holds the key, route, time, address and status, and never a body.",
        },
      ),
    },
  );
};
