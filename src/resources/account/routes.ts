import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import * as keys from "../api_keys/service.ts";
import * as workspaces from "../workspaces/service.ts";
import type { WorkspaceRow } from "../workspaces/table.ts";
import { Account, present, UpdateAccount } from "./schema.ts";

/** The caller's own workspace, seen and changed without the admin scope. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "self");
  const show = (who: Principal, workspace: WorkspaceRow) =>
    present(workspace, keys.mustGet(ctx, who.workspaceId, who.keyId));
  return new Elysia({ prefix: "/v1/account", tags: ["Account"] })
    .use(authed)
    .get("", ({ principal }) => show(principal, workspaces.mustGet(ctx, principal.workspaceId)), {
      detail: describe("Who this key is: its workspace and itself", { 200: Account }),
    })
    .patch("", ({ principal, body }) => show(principal, workspaces.update(ctx, principal.workspaceId, body)), {
      ...takes(UpdateAccount),
      detail: describe("Rename the workspace or change its metadata", { 200: Account }),
    });
};
