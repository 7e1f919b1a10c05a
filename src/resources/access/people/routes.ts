import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { stateOf } from "../../../http/request_state.ts";
import { Deleted } from "../../../lib/schema.ts";
import { ListedSession } from "../browser_sessions/schema.ts";
import * as sessions from "../browser_sessions/service.ts";
import { UpdateUser, User, UsersQuery } from "./schema.ts";
import * as secondFactor from "./second_factor/service.ts";
import * as people from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/users", tags: ["Users"] })
    .use(authed)
    .get("", ({ principal, query }) => people.list(ctx, principal.workspaceId, query), {
      ...asks(UsersQuery),
      detail: describe("List the users of the workspace", { 200: listOf(User, "UserList") }),
    })
    .get("/:id", ({ principal, params }) => people.show(ctx, people.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a user", { 200: User }),
    })
    .patch(
      "/:id",
      ({ principal, params, body }) => {
        const { workspaceId } = principal;
        const row = people.mustGet(ctx, workspaceId, params.id);
        const { role = row.role } = body;
        return people.show(ctx, people.setRole(ctx, { workspaceId, id: row.id, role, manager: principal }));
      },
      {
        ...takes(UpdateUser),
        detail: describe(
          "Change the role of a user",
          { 200: User },
          {
            description:
              "Takes effect at the next request. Keys of the user lose the scopes that the new role lacks. Only an owner changes owners; the last owner stays.",
          },
        ),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { workspaceId } = principal;
        const { id } = people.remove(ctx, { workspaceId, id: params.id, manager: principal });
        return { id, object: "user", deleted: true };
      },
      {
        detail: describe("Remove a user from the workspace: sessions end, and the user's keys are revoked", {
          200: Deleted("user"),
        }),
      },
    )
    .get(
      "/:id/sessions",
      ({ request, principal, params, query }) => {
        const row = people.mustGet(ctx, principal.workspaceId, params.id);
        people.requireSessionRight(ctx, principal, row);
        return sessions.listOfKey(ctx, row.keyId, query, stateOf(request).session?.sessionId);
      },
      {
        ...asks(PageQuery),
        detail: describe(
          "List the browser sessions of a user in this workspace",
          { 200: listOf(ListedSession, "BrowserSessionList") },
          { description: "For the user, and for those who may change the user." },
        ),
      },
    )
    .delete(
      "/:id/sessions",
      ({ principal, params }) => {
        const row = people.mustGet(ctx, principal.workspaceId, params.id);
        people.requireSessionRight(ctx, principal, row);
        sessions.removeOfUser(ctx, row.id);
        return people.show(ctx, row);
      },
      { detail: describe("End all browser sessions of a user in this workspace", { 200: User }) },
    )
    .delete(
      "/:id/second_factor",
      ({ principal, params }) => {
        const row = people.mustGet(ctx, principal.workspaceId, params.id);
        people.requirePersonRight(ctx, principal, row);
        secondFactor.remove(ctx, row.personId);
        return people.show(ctx, row);
      },
      {
        detail: describe(
          "Remove the second factor of a user who has lost it",
          { 200: User },
          {
            description:
              "The person signs in with the password alone until a new one is added. A person of several workspaces needs the operator: `verk users remove-second-factor`.",
          },
        ),
      },
    );
};
