import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { AppError } from "../../../lib/errors.ts";
import { Deleted } from "../../../lib/schema.ts";
import { CreateWorkspace, present, UpdateWorkspace, Workspace } from "./schema.ts";
import * as workspaces from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "admin");
  return new Elysia({ prefix: "/v1/workspaces", tags: ["Workspaces"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => present(workspaces.create(ctx, body))),
      {
        ...takes(CreateWorkspace),
        detail: describe("Create a workspace", { 201: Workspace }),
      },
    )
    .get("", ({ query }) => workspaces.list(ctx, query), {
      ...asks(PageQuery),
      detail: describe("List workspaces", { 200: listOf(Workspace, "WorkspaceList") }),
    })
    .get("/:id", ({ params }) => present(workspaces.mustGet(ctx, params.id)), {
      detail: describe("Get a workspace", { 200: Workspace }),
    })
    .patch("/:id", ({ params, body }) => present(workspaces.update(ctx, params.id, body)), {
      ...takes(UpdateWorkspace),
      detail: describe("Rename a workspace or change its metadata", { 200: Workspace }),
    })
    .post("/:id/suspend", ({ params, principal }) => present(workspaces.suspend(ctx, notOwn(principal, params.id))), {
      detail: describe("Suspend a workspace; its keys are rejected with 401 until it is resumed", { 200: Workspace }),
    })
    .post("/:id/resume", ({ params }) => present(workspaces.resume(ctx, params.id)), {
      detail: describe("Resume a suspended workspace", { 200: Workspace }),
    })
    .delete(
      "/:id",
      ({ params, principal }) => {
        const { id } = workspaces.remove(ctx, notOwn(principal, params.id));
        return { id, object: "workspace", deleted: true };
      },
      { detail: describe("Delete a workspace", { 200: Deleted("workspace") }) },
    );
};

/** A key cannot suspend or delete its own workspace, so that callers do not lock themselves out. */
function notOwn(principal: { workspaceId: string }, id: string): string {
  if (id === principal.workspaceId)
    throw new AppError(
      "unsupported_state",
      "This key belongs to the workspace itself: use an admin key of another workspace",
      {
        param: "id",
      },
    );
  return id;
}
