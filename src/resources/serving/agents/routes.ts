import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted, flagText } from "../../../lib/schema.ts";
import { Agent, CreateAgent, present } from "./schema.ts";
import * as agents from "./service.ts";

const ListQuery = PageQuery.extend({
  name: z.string().optional().describe("Only versions of this name"),
  latest: flagText.default(false).describe("Only the newest version of each name"),
});

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/agents", tags: ["Agents"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => present(agents.create(ctx, principal.workspaceId, body))),
      {
        ...takes(CreateAgent),
        detail: describe(
          "Create an agent, or the next version of one",
          { 201: Agent },
          {
            description:
              "An agent is a deployment with a system prompt, tools and sampling. Its name, name@version and id work as `model` in POST /v1/chat/completions.",
          },
        ),
      },
    )
    .get("", ({ principal, query }) => agents.list(ctx, principal.workspaceId, query), {
      ...asks(ListQuery),
      detail: describe("List the versions of agents", { 200: listOf(Agent, "AgentList") }),
    })
    .get("/:id", ({ principal, params }) => present(agents.mustFind(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a version by id or name@3, or the newest by name", { 200: Agent }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = agents.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "agent", deleted: true };
      },
      { detail: describe("Delete one version, by id or name@3", { 200: Deleted("agent") }) },
    );
};
